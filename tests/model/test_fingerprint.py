"""The same model has the same fingerprint however it was saved; another has another."""

from collections.abc import Callable
from pathlib import Path

import torch
from families import FAMILIES
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from knnmt.model.fingerprint import model_fingerprint, tokenizer_fingerprint


def test_precision_and_file_format_do_not_matter(tmp_path: Path, family_directory: Callable[[str], Path]) -> None:
    model = AutoModelForSeq2SeqLM.from_pretrained(family_directory("marian"), dtype=torch.float32)
    expected = model_fingerprint(model)
    half = AutoModelForSeq2SeqLM.from_pretrained(family_directory("marian"), dtype=torch.float16)
    assert model_fingerprint(half) == expected
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    model.config.save_pretrained(tmp_path)
    assert model_fingerprint(AutoModelForSeq2SeqLM.from_pretrained(tmp_path, dtype=torch.float32)) == expected


def test_other_weights_are_another_model(family_directory: Callable[[str], Path]) -> None:
    prints = set()
    for family in FAMILIES:
        model = AutoModelForSeq2SeqLM.from_pretrained(family_directory(family), dtype=torch.float32)
        prints.add(model_fingerprint(model))
        with torch.no_grad():
            next(iter(model.parameters())).add_(0.1)
        prints.add(model_fingerprint(model))
    assert len(prints) == 2 * len(FAMILIES)


def test_tokenizers_differ_by_vocabulary_not_by_language(family_directory: Callable[[str], Path]) -> None:
    prints = {}
    for family in FAMILIES:
        tokenizer = AutoTokenizer.from_pretrained(family_directory(family))
        if family == "nllb":
            tokenizer.tgt_lang = "eng_Latn"
        if family == "m2m100":
            tokenizer.src_lang, tokenizer.tgt_lang = "de", "en"
        prints[family] = tokenizer_fingerprint(tokenizer)
    assert prints["t5"] == prints["t5-gated"]
    assert len(set(prints.values())) >= len(FAMILIES) - 3
    nllb = AutoTokenizer.from_pretrained(family_directory("nllb"), src_lang="eng_Latn", tgt_lang="deu_Latn")
    assert tokenizer_fingerprint(nllb) == prints["nllb"]
