"""The memory inside somebody's own model, under every strategy of `generate`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from families import FAMILIES
from naive import Dense
from sentences import SENTENCES
from tolerances import LOG_P, STATES
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from worlds import load, make_store

from knnmt.datastore import Store, StoreWriter
from knnmt.decoding import attach
from knnmt.errors import MethodError, StoreError
from knnmt.methods import Vanilla
from knnmt.model import TranslationModel

SOURCE = SENTENCES[-2][0]


@pytest.fixture
def world(
    request: pytest.FixtureRequest, tmp_path: Path, family_directory: Callable[[str], Path]
) -> tuple[Any, Any, Store, TranslationModel]:
    """A user's own model and tokenizer, a store with a fitted combiner, and our view of the model."""
    directory = family_directory(request.param)
    ours = load(request.param, directory)
    store = make_store(tmp_path / "store", ours)
    with StoreWriter(store.path, store.model) as writer:
        place = writer.new_directory("combiners", "vanilla")
        Vanilla(4, 0.9, 10.0).save(place)
        store = writer.commit(combiner=("vanilla", place))
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForSeq2SeqLM.from_pretrained(directory, dtype=torch.float32).eval()
    return model, tokenizer, store, ours


def inputs(model: Any, tokenizer: Any, ours: TranslationModel) -> dict[str, Any]:
    source = torch.tensor(ours.codec.encode_sources([SOURCE]))
    prefix = ours.codec.prefix
    forced = {"forced_bos_token_id": prefix[1]} if len(prefix) > 1 else {}
    return {"input_ids": source, "decoder_start_token_id": prefix[0], "max_length": 12, **forced}


def greedy(dense: Dense, source: list[int], steps: int) -> list[int]:
    """Token by token; at the last step a forced end of sentence is what `generate` writes."""
    tokens: list[int] = []
    while len(tokens) < steps and (not tokens or tokens[-1] != dense.model.codec.eos):
        forced = dense.model.hf.generation_config.forced_eos_token_id
        last = forced is not None and len(tokens) == steps - 1
        tokens.append(int(forced) if last else int(np.argmax(dense.log_p(source, tokens))))
    return tokens


@pytest.mark.parametrize("world", FAMILIES, indirect=True)
@pytest.mark.parametrize("strategy", ["cached", "uncached", "assisted", "prompt"])
def test_greedy_decoding_agrees_with_loops(world: tuple[Any, Any, Store, TranslationModel], strategy: str) -> None:
    model, tokenizer, store, ours = world
    options = inputs(model, tokenizer, ours) | {"num_beams": 1}
    prefix = list(ours.codec.prefix)
    expected = greedy(
        Dense(ours, store, k=4, lam=0.9, temperature=10.0), options["input_ids"][0].tolist(), 12 - len(prefix)
    )
    if strategy == "uncached":
        options["use_cache"] = False
    if strategy == "assisted":
        options["assistant_model"] = AutoModelForSeq2SeqLM.from_pretrained(model.name_or_path, dtype=torch.float32)
    if strategy == "prompt":
        options["decoder_input_ids"] = torch.tensor([prefix + expected[:2]])
        options.pop("forced_bos_token_id", None)
    with attach(model, tokenizer, store):
        row = model.generate(**options)[0].tolist()
    assert row[: len(prefix)] == prefix
    assert row[len(prefix) :] == expected
    assert model.generate(**inputs(model, tokenizer, ours), num_beams=1)[0].tolist() != row, "the memory matters"


@pytest.mark.parametrize("world", ["marian", "nllb"], indirect=True)
@pytest.mark.parametrize("beams", [1, 3], ids=["sampling", "beam sampling"])
def test_sampling_draws_from_the_mixture(world: tuple[Any, Any, Store, TranslationModel], beams: int) -> None:
    """The scores that sampling sees are the mixture's at every step it took."""
    model, tokenizer, store, ours = world
    options = inputs(model, tokenizer, ours)
    torch.manual_seed(0)
    with attach(model, tokenizer, store):
        output = model.generate(
            **options,
            do_sample=True,
            top_k=0,
            num_beams=beams,
            output_logits=True,
            return_dict_in_generate=True,
            renormalize_logits=False,
            bad_words_ids=None,
            early_stopping=False,
        )
    dense = Dense(ours, store, k=4, lam=0.9, temperature=10.0)
    dense.model.hf.generation_config.bad_words_ids = None
    dense.model.hf.generation_config.renormalize_logits = False
    row = output.sequences[0].tolist()
    prefix = len(ours.codec.prefix)
    assert len(row) > prefix + 2
    rows = output.beam_indices[0].tolist() if beams > 1 else [0] * len(row)
    for step in range(prefix - 1, min(len(row) - 1, len(output.logits))):
        if rows[step] < 0:
            break
        expected = dense.log_p(options["input_ids"][0].tolist(), row[prefix : step + 1])
        found = output.logits[step][rows[step]].log_softmax(0)
        np.testing.assert_allclose(found.exp().numpy(), np.exp(expected), atol=LOG_P)


@pytest.mark.parametrize("world", ["marian", "m2m100", "fsmt"], indirect=True)
def test_on_leaving_the_model_is_as_it_was(world: tuple[Any, Any, Store, TranslationModel]) -> None:
    model, tokenizer, store, ours = world
    options = inputs(model, tokenizer, ours)
    languages = (getattr(tokenizer, "src_lang", None), getattr(tokenizer, "tgt_lang", None))
    before = model.generate(**options)
    hooks = [(name, len(m._forward_hooks), len(m._forward_pre_hooks)) for name, m in model.named_modules()]
    with pytest.raises(RuntimeError, match="in the block"), attach(model, tokenizer, store):
        raise RuntimeError("in the block")
    with attach(model, tokenizer, store, method="vanilla"):
        assert not torch.equal(model.generate(**options), before)
    assert [(name, len(m._forward_hooks), len(m._forward_pre_hooks)) for name, m in model.named_modules()] == hooks
    assert torch.equal(model.generate(**options), before)
    assert (getattr(tokenizer, "src_lang", None), getattr(tokenizer, "tgt_lang", None)) == languages


@pytest.mark.parametrize("world", ["marian"], indirect=True)
def test_a_forward_pass_gives_the_mixture_too(world: tuple[Any, Any, Store, TranslationModel]) -> None:
    model, tokenizer, store, ours = world
    source = ours.codec.encode_sources([SOURCE])
    target = ours.codec.encode_targets([SENTENCES[-2][1]])[0]
    decoder_input = torch.tensor([[*ours.codec.prefix, *target[:-1]]])
    dense = Dense(ours, store, k=4, lam=0.9, temperature=10.0)
    ours.hf.generation_config.bad_words_ids = None
    with attach(model, tokenizer, store), torch.no_grad():
        output = model(input_ids=torch.tensor(source), decoder_input_ids=decoder_input, return_dict=True)
        as_tuple = model(input_ids=torch.tensor(source), decoder_input_ids=decoder_input, return_dict=False)
    torch.testing.assert_close(as_tuple[0], output.logits, **STATES)
    for position in range(len(target)):
        expected = np.exp(dense.log_p(source[0], target[:position]))
        np.testing.assert_allclose(output.logits[0, position].softmax(0).numpy(), expected, atol=LOG_P)


@pytest.mark.parametrize("world", ["marian"], indirect=True)
def test_loss_and_gradients_stay_the_models_own(world: tuple[Any, Any, Store, TranslationModel]) -> None:
    model, tokenizer, store, ours = world
    source, target = (torch.tensor(each) for each in (ours.codec.encode_sources([SOURCE]), [[5, 6, 7, ours.codec.eos]]))
    weight = model.get_decoder().layers[0].fc1.weight

    def trained() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        model.zero_grad()
        output = model(input_ids=source, labels=target)
        output.loss.backward()
        return output.logits.detach(), output.loss.detach(), weight.grad.clone()

    alone = trained()
    with attach(model, tokenizer, store):
        attached = trained()
    torch.testing.assert_close(attached[1:], alone[1:], **STATES)
    assert not torch.allclose(attached[0], alone[0], **STATES), "the memory is mixed in all the same"


@pytest.mark.parametrize("world", ["marian"], indirect=True)
def test_another_model_is_refused(
    world: tuple[Any, Any, Store, TranslationModel], family_directory: Callable[[str], Path]
) -> None:
    model, tokenizer, store, ours = world
    with torch.no_grad():
        model.get_encoder().layers[0].fc1.weight.mul_(1.5)
    with pytest.raises(StoreError, match="another model"), attach(model, tokenizer, store):
        pass
    with (
        pytest.raises(StoreError, match="another"),
        attach(ours.hf, AutoTokenizer.from_pretrained(family_directory("t5")), store),
    ):
        pass


@pytest.mark.parametrize("world", ["marian"], indirect=True)
def test_nothing_fitted(world: tuple[Any, Any, Store, TranslationModel], tmp_path: Path) -> None:
    model, tokenizer, _, ours = world
    bare = make_store(tmp_path / "bare", ours)
    with pytest.raises(MethodError, match="Nothing was fitted"), attach(model, tokenizer, bare):
        pass


@pytest.mark.parametrize("world", ["nllb"], indirect=True)
def test_a_tuple_with_a_cache_is_mixed_too(world: tuple[Any, Any, Store, TranslationModel]) -> None:
    """The position of a call with one token is known from the cache, which a tuple has somewhere."""
    model, tokenizer, store, ours = world
    source = torch.tensor(ours.codec.encode_sources([SOURCE]))
    with attach(model, tokenizer, store), torch.no_grad():
        start = model(input_ids=source, decoder_input_ids=torch.tensor([[ours.codec.prefix[0]]]), use_cache=True)
        options = {"input_ids": source, "decoder_input_ids": torch.tensor([[ours.codec.prefix[1]]]), "use_cache": True}
        cache = start.past_key_values
        as_tuple = model(**options, past_key_values=cache, return_dict=False)
    expected = Dense(ours, store, k=4, lam=0.9, temperature=10.0).log_p(source[0].tolist(), [])
    np.testing.assert_allclose(as_tuple[0][0, -1].softmax(0).numpy(), np.exp(expected), atol=LOG_P)


@pytest.mark.parametrize("world", ["marian"], indirect=True)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_copy_in_half_precision(world: tuple[Any, Any, Store, TranslationModel], dtype: torch.dtype) -> None:
    """fp16 is the same model to its fingerprint; bf16 rounds its weights and is told apart, not called broken."""
    model, tokenizer, store, ours = world
    model.to(dtype)
    options = inputs(model, tokenizer, ours) | {"num_beams": 1}
    if dtype == torch.bfloat16:
        with pytest.raises(StoreError, match="another model"), attach(model, tokenizer, store):
            pass
        return
    with attach(model, tokenizer, store):
        with_memory = model.generate(**options)
    assert not torch.equal(with_memory, model.generate(**options))
