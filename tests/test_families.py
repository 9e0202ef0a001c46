"""The models of families.py must load as a user's would and must not say the same thing to every source."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from families import FAMILIES, LANGUAGES, make_family, target_ids
from sentences import SENTENCES
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, FSMTTokenizer


def load(name: str, directory: Path) -> tuple[Any, Any, dict[str, int]]:
    """Tokenizer, model and what ``generate`` needs to know of the target language."""
    tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    model = AutoModelForSeq2SeqLM.from_pretrained(directory, local_files_only=True, dtype=torch.float32).eval()
    source_lang, target_lang = LANGUAGES[name]
    if source_lang is None or target_lang is None:
        return tokenizer, model, {}
    tokenizer.src_lang, tokenizer.tgt_lang = source_lang, target_lang
    if name == "mbart-cc25":
        return tokenizer, model, {}
    language = getattr(tokenizer, "get_lang_id", tokenizer.get_vocab().__getitem__)(target_lang)
    return tokenizer, model, {"forced_bos_token_id": language}


@pytest.mark.parametrize("name", ["fsmt", "nllb", "marian"])
def test_they_are_the_same_whenever_they_are_made(
    name: str, tmp_path: Path, family_directory: Callable[[str], Path]
) -> None:
    """Each has a vocabulary of another kind; what the weights are must not depend on a hash table's order."""
    make_family(name, tmp_path)
    files = {path.name for path in tmp_path.iterdir()}
    assert "model.safetensors" in files
    for file in files:
        assert (tmp_path / file).read_bytes() == (family_directory(name) / file).read_bytes(), file


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("name", FAMILIES)
def test_outputs_differ_between_sources_and_over_time(
    name: str, beams: int, family_directory: Callable[[str], Path]
) -> None:
    tokenizer, model, forced = load(name, family_directory(name))
    sources = tokenizer([source for source, _ in SENTENCES[:24]], padding=True, return_tensors="pt")
    outputs = model.generate(**sources, num_beams=beams, max_length=40, **forced)
    ends, specials = model.generation_config.eos_token_id, set(tokenizer.all_special_ids)
    rows = [[token for token in row if token not in specials] for row in outputs.tolist()]

    assert len({tuple(row) for row in rows}) >= 12
    assert sum(len(set(row)) for row in rows) / len(rows) >= 5
    assert len({token for row in rows for token in row}) >= 50
    assert len({len(row) for row in rows}) >= 4
    assert sum(ends in row[2:-1] for row in outputs.tolist()) >= 4, "sentences should end on their own"


@pytest.mark.parametrize("name", FAMILIES)
def test_targets_come_back_from_their_ids(name: str, family_directory: Callable[[str], Path]) -> None:
    tokenizer, model, _ = load(name, family_directory(name))
    texts = [target for _, target in SENTENCES]
    rows = target_ids(tokenizer, texts)
    assert max(token for row in rows for token in row) < model.config.vocab_size
    assert tokenizer.batch_decode(rows, skip_special_tokens=True) == texts
    if not isinstance(tokenizer, FSMTTokenizer):
        assert rows == tokenizer(text_target=texts).input_ids


@pytest.mark.parametrize("name", ["marian", "mbart50", "mbart-cc25", "bart"])
def test_logits_bias_is_not_zero(name: str, family_directory: Callable[[str], Path]) -> None:
    _, model, _ = load(name, family_directory(name))
    assert model.final_logits_bias.std() > 0.5


def test_only_gated_t5_has_an_output_projection_of_its_own(family_directory: Callable[[str], Path]) -> None:
    _, tied, _ = load("t5", family_directory("t5"))
    _, gated, _ = load("t5-gated", family_directory("t5-gated"))
    assert torch.equal(tied.lm_head.weight, tied.shared.weight)
    assert tied.config.scale_decoder_outputs
    assert not torch.equal(gated.lm_head.weight, gated.shared.weight)
    assert not gated.config.scale_decoder_outputs
