"""Tokenizer, model and generation config of each family, in the layout of its real checkpoints.

The weights are random; families.py trains and saves them.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sacremoses
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BartTokenizer,
    FSMTConfig,
    FSMTForConditionalGeneration,
    FSMTTokenizer,
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    MBart50Tokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    MBartTokenizer,
    NllbTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    T5Config,
    T5ForConditionalGeneration,
    T5Tokenizer,
)
from vocabularies import FAIRSEQ_SPECIALS, PIECES, all_texts, train_bpe_of_words, train_sentencepiece, write_vocabulary

_POSITIONS = 256

# A tokenizer, a model and the contents of its generation config.
Parts = tuple[PreTrainedTokenizerBase, PreTrainedModel, dict[str, Any]]


def _marian(directory: Path) -> Parts:
    german, english = all_texts()
    pieces = train_sentencepiece(german, directory / "source.spm", "unigram")
    pieces += train_sentencepiece(english, directory / "target.spm", "unigram")
    tokens = list(dict.fromkeys(["</s>", "<unk>", *(piece for piece, _ in pieces), "<pad>"]))
    vocabulary = write_vocabulary(tokens, directory / "vocab.json")
    tokenizer = MarianTokenizer(
        str(directory / "source.spm"),
        str(directory / "target.spm"),
        str(directory / "vocab.json"),
        source_lang="de",
        target_lang="en",
        model_max_length=_POSITIONS,
    )
    pad = vocabulary["<pad>"]
    config = MarianConfig(
        vocab_size=len(tokens),
        **_transformer_size(),
        activation_function="swish",
        scale_embedding=True,
        decoder_start_token_id=pad,
        pad_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=0,
    )
    model = MarianMTModel(config)
    generation = {
        "bad_words_ids": [[pad]],
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "max_length": 256,
        "num_beams": 6,
        "pad_token_id": pad,
        "renormalize_logits": True,
    }
    return tokenizer, model, generation


def _fsmt(directory: Path) -> Parts:
    return _make_fsmt(directory, separate=False)


def _fsmt_separate(directory: Path) -> Parts:
    return _make_fsmt(directory, separate=True)


def _make_fsmt(directory: Path, *, separate: bool) -> Parts:
    german, english = (
        [
            sacremoses.MosesTokenizer(lang=language).tokenize(
                text, aggressive_dash_splits=True, return_str=True, escape=True
            )
            for text in texts
        ]
        for language, texts in zip(("de", "en"), all_texts(), strict=True)
    )
    bpe = train_bpe_of_words(german + english)
    merges = json.loads(bpe.to_str())["model"]["merges"]
    (directory / "merges.txt").write_text("".join(f"{left} {right}\n" for left, right in merges), "utf-8")

    shared = sorted(bpe.get_vocab(), key=bpe.get_vocab().__getitem__)
    sides = [shared, shared]
    if separate:
        used = [{token for text in texts for token in bpe.encode(text).tokens} for texts in (german, english)]
        sides = [FAIRSEQ_SPECIALS + sorted(tokens) for tokens in used]
    for side, tokens in zip(("src", "tgt"), sides, strict=True):
        write_vocabulary(tokens, directory / f"vocab-{side}.json")
    tokenizer = FSMTTokenizer(  # type: ignore[no-untyped-call]
        langs=["de", "en"],
        src_vocab_file=str(directory / "vocab-src.json"),
        tgt_vocab_file=str(directory / "vocab-tgt.json"),
        merges_file=str(directory / "merges.txt"),
        model_max_length=_POSITIONS,
    )
    config = FSMTConfig(
        langs=["de", "en"],
        src_vocab_size=len(sides[0]),
        tgt_vocab_size=len(sides[1]),
        **_transformer_size(),
        tie_word_embeddings=False,
    )
    model = FSMTForConditionalGeneration(config)
    generation = {
        "bos_token_id": 0,
        "decoder_start_token_id": 2,
        "eos_token_id": 2,
        "forced_eos_token_id": 2,
        "length_penalty": 1.15,
        "max_length": 200,
        "num_beams": 5,
        "pad_token_id": 1,
    }
    return tokenizer, model, generation


def _m2m100(directory: Path) -> Parts:
    german, english = all_texts()
    pieces = train_sentencepiece(german + english, directory / "sentencepiece.bpe.model", "bpe")
    tokens = FAIRSEQ_SPECIALS + [piece for piece, _ in pieces]
    write_vocabulary(tokens, directory / "vocab.json")
    files: dict[str, Any] = {
        "vocab_file": str(directory / "vocab.json"),
        "spm_file": str(directory / "sentencepiece.bpe.model"),
    }
    # Real checkpoints name the language tokens as special ones; the class alone does not.
    languages = [f"__{code}__" for code in M2M100Tokenizer(**files).lang_code_to_id]
    tokenizer = M2M100Tokenizer(**files, additional_special_tokens=languages, model_max_length=_POSITIONS)
    return tokenizer, *_m2m100_model(tokenizer, filler=8)


def _nllb(directory: Path) -> Parts:
    german, english = all_texts()
    bpe = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    bpe.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    trainer = trainers.BpeTrainer(vocab_size=PIECES, special_tokens=FAIRSEQ_SPECIALS, show_progress=False)
    bpe.train_from_iterator(german + english, trainer)
    merges: Any = [tuple(merge) for merge in json.loads(bpe.to_str())["model"]["merges"]]  # not str, as annotated
    tokenizer = NllbTokenizer(vocab=bpe.get_vocab(), merges=merges, model_max_length=_POSITIONS)
    return tokenizer, *_m2m100_model(tokenizer, filler=2)


def _m2m100_model(tokenizer: PreTrainedTokenizerBase, *, filler: int) -> tuple[PreTrainedModel, dict[str, Any]]:
    config = M2M100Config(vocab_size=len(tokenizer) + filler, **_transformer_size(), decoder_start_token_id=2)
    model = M2M100ForConditionalGeneration(config)
    generation = {
        "bos_token_id": 0,
        "decoder_start_token_id": 2,
        "eos_token_id": 2,
        "max_length": 200,
        "pad_token_id": 1,
    }
    if isinstance(tokenizer, M2M100Tokenizer):
        generation |= {"early_stopping": True, "num_beams": 5}
    return model, generation


def _mbart50(directory: Path) -> Parts:
    german, english = all_texts()
    pieces = train_sentencepiece(german + english, directory / "sentencepiece.bpe.model", "unigram")
    tokenizer = MBart50Tokenizer(
        vocab=[("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *pieces], model_max_length=_POSITIONS
    )
    return tokenizer, *_mbart_model(tokenizer, decoder_start=2)


def _mbart_cc25(directory: Path) -> Parts:
    german, english = all_texts()
    pieces = train_sentencepiece(german + english, directory / "sentencepiece.bpe.model", "unigram")
    specials = [(token, 0.0) for token in FAIRSEQ_SPECIALS]
    behind = [(token, 0.0) for token in [*MBartTokenizer().lang_code_to_id, "<mask>"]]
    tokenizer = MBartTokenizer(vocab=[*specials, *pieces, *behind], model_max_length=_POSITIONS)
    return tokenizer, *_mbart_model(tokenizer, decoder_start=tokenizer.get_vocab()["en_XX"])


def _mbart_model(tokenizer: PreTrainedTokenizerBase, *, decoder_start: int) -> tuple[PreTrainedModel, dict[str, Any]]:
    config = MBartConfig(
        vocab_size=len(tokenizer),
        **_transformer_size(),
        scale_embedding=True,
        activation_function="gelu",
        decoder_start_token_id=decoder_start,
    )
    model = MBartForConditionalGeneration(config)
    generation = {
        "bos_token_id": 0,
        "decoder_start_token_id": decoder_start,
        "early_stopping": True,
        "eos_token_id": 2,
        "forced_eos_token_id": 2,
        "max_length": 200,
        "num_beams": 5,
        "pad_token_id": 1,
    }
    return model, generation


def _bart(directory: Path) -> Parts:
    german, english = all_texts()
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=PIECES + 256,
        special_tokens=FAIRSEQ_SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(german + english, trainer)
    merges: Any = [tuple(merge) for merge in json.loads(bpe.to_str())["model"]["merges"]]  # not str, as annotated
    tokenizer = BartTokenizer(vocab=bpe.get_vocab(), merges=merges, model_max_length=_POSITIONS)
    config = BartConfig(vocab_size=len(tokenizer), **_transformer_size(), forced_bos_token_id=0)  # type: ignore[call-arg]
    model = BartForConditionalGeneration(config)
    generation = {
        "bos_token_id": 0,
        "decoder_start_token_id": 2,
        "early_stopping": True,
        "eos_token_id": 2,
        "forced_bos_token_id": 0,
        "forced_eos_token_id": 2,
        "no_repeat_ngram_size": 3,
        "num_beams": 4,
        "pad_token_id": 1,
    }
    return tokenizer, model, generation


def _t5(directory: Path) -> Parts:
    return _make_t5(directory, feed_forward_proj="relu")


def _t5_gated(directory: Path) -> Parts:
    return _make_t5(directory, feed_forward_proj="gated-gelu", tie_word_embeddings=False)


def _make_t5(directory: Path, **variant: Any) -> Parts:
    german, english = all_texts()
    pieces = train_sentencepiece(german + english, directory / "spiece.model", "unigram")
    sentinels = [(f"<extra_id_{number}>", 0.0) for number in range(99, -1, -1)]
    tokenizer = T5Tokenizer(
        vocab=[("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *pieces, *sentinels],
        extra_ids=100,
        model_max_length=_POSITIONS,
    )
    config = T5Config(  # type: ignore[call-arg]
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        **variant,
    )
    model = T5ForConditionalGeneration(config)
    if not config.scale_decoder_outputs:  # v1.1, whose output projection is its own; the class ties it always
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight) * 0.1)
    return tokenizer, model, {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}


def _transformer_size() -> dict[str, Any]:
    return {
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "max_position_embeddings": _POSITIONS,
        "init_std": 0.1,
    }


MAKERS: dict[str, Callable[[Path], Parts]] = {
    "marian": _marian,
    "fsmt": _fsmt,
    "fsmt-separate": _fsmt_separate,
    "m2m100": _m2m100,
    "nllb": _nllb,
    "mbart50": _mbart50,
    "mbart-cc25": _mbart_cc25,
    "bart": _bart,
    "t5": _t5,
    "t5-gated": _t5_gated,
}
