"""The index of a build: of the kind asked for, and rebuilt where it is lost."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sentences import SENTENCES

from knnmt.datastore import Store
from knnmt.errors import CorpusError, StoreError
from knnmt.model import TranslationModel
from knnmt.search import Searcher, describe_index
from knnmt.workflow import build

WriteCorpus = Callable[..., list[Path]]


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_who_names_an_index_gets_it(
    tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus, kind: str
) -> None:
    store = build(tmp_path / "store", write_corpus(SENTENCES), model, index=kind)
    assert store.index_directory is not None
    assert store.covered_segments() == {segment.name for segment in store.segments}
    assert build(tmp_path / "auto", write_corpus(SENTENCES), model).index_directory is None


def other_content(index: Path) -> None:
    """Of segments with the same names."""
    config = json.loads((index / "config.json").read_text())
    config["segments"] = dict.fromkeys(config["segments"], "0" * 32)
    (index / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    "damage", [shutil.rmtree, lambda index: (index / "config.json").write_text("{"), other_content]
)
def test_a_lost_index_is_rebuilt(
    tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus, damage: Callable[[Path], object]
) -> None:
    """Without a corpus nothing else is done; with one, though few entries would need no index."""
    path = tmp_path / "store"
    for corpus in ([], write_corpus(SENTENCES[-3:], "more")):
        before = build(path, write_corpus(SENTENCES[:-3]), model, index="ivf")
        assert before.index_directory is not None
        damage(before.index_directory)
        with pytest.raises(StoreError, match="rebuild the index with `knnmt build` on the store, without a corpus"):
            Searcher(Store.open(path))
        after = build(path, corpus, model)
        assert after.entry_count == before.entry_count if not corpus else after.entry_count > before.entry_count
        assert after.covered_segments() == {segment.name for segment in after.segments}
        assert Searcher(after).search(np.zeros((1, model.dim), np.float32), 4).ids.min() >= 0


def test_without_a_corpus_an_index_of_another_kind(
    tmp_path: Path, model: TranslationModel, write_corpus: WriteCorpus
) -> None:
    store = build(tmp_path / "store", write_corpus(SENTENCES), model)
    indexed = build(store.path, [], index="ivf")
    assert describe_index(indexed)["index"].startswith("IVF")
    assert describe_index(build(store.path, []))["index"].startswith("IVF"), "who chose a kind keeps it"
    with pytest.raises(CorpusError, match="No corpus was given"):
        build(tmp_path / "new", [], model)
