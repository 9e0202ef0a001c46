import numpy as np
import pytest

from knnmt.search.pairs import Pairs


def test_ids_keys_and_sentences_of_every_pair(small_store):
    pairs = Pairs(small_store.segments)
    assert len(pairs) == 300
    ids = pairs.ids(np.arange(300))
    assert (ids == small_store.column("ids")).all()
    shuffled = np.random.default_rng(0).permutation(300)
    assert (pairs.keys(ids[shuffled]) == small_store.column("keys")[shuffled].astype(np.float32)).all()
    expected = [(s.number << 32) + int(n) for s in small_store.segments for n in s.sentence]
    assert pairs.sentences(ids[shuffled]).tolist() == np.array(expected)[shuffled].tolist()
    assert pairs.sentences(ids.reshape(30, 10)).shape == (30, 10)


def test_half_precision_becomes_the_same_numbers(toolbox):
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)].reshape(-1, 16)
    pairs = Pairs([toolbox.make_segment(1, finite)])
    assert (pairs.keys(pairs.ids(np.arange(len(finite)))) == finite.astype(np.float32)).all()


@pytest.mark.parametrize("size", [1, 7, 120, 1000])
def test_blocks_hold_everything_once_and_in_order(small_store, size):
    blocks = list(Pairs(small_store.segments).blocks(size))
    assert max(len(ids) for ids, _ in blocks) <= size
    assert (np.concatenate([ids for ids, _ in blocks]) == small_store.column("ids")).all()
    assert (np.concatenate([keys for _, keys in blocks]) == small_store.column("keys").astype(np.float32)).all()


def test_foreign_ids_are_refused(small_store):
    for segments in (small_store.segments, small_store.segments[:1]):
        with pytest.raises(IndexError):
            Pairs(segments).keys(np.array([5 << 32]))
        with pytest.raises(IndexError):
            Pairs(segments).keys(np.array([(1 << 32) + 120]))
