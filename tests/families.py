"""Small translation models with real tokenizers, one for each family of Hugging Face models.

Each is saved in the layout of the family's real checkpoints, so that ``AutoTokenizer`` and
``AutoModelForSeq2SeqLM`` load it offline. The tokenizers are trained on ``SENTENCES``. The weights are random and
then learn for a moment from the first third of them: purely random weights, however wide, say the same few tokens
over and over and never end a sentence, and a test of keys, neighbours or beams could not fail.

They are drawn and trained in double precision and rounded at the end. In single precision Adam makes a whole step out
of a gradient that is nothing but rounding, so that every processor would get a model of its own, with near-ties of its
own; this way all get the same weights, to the last bit or nearly so.
"""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import sacremoses
import sentencepiece
import torch
from sentences import SENTENCES
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BartTokenizer,
    FSMTConfig,
    FSMTForConditionalGeneration,
    FSMTTokenizer,
    GenerationConfig,
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
from transformers.models.fsmt import modeling_fsmt

# What a user passes as --source-lang and --target-lang.
LANGUAGES: dict[str, tuple[str | None, str | None]] = {
    "marian": (None, None),
    "fsmt": (None, None),  # one vocabulary in both vocab files, as in facebook/wmt19-de-en
    "fsmt-separate": (None, None),  # a vocabulary for each side, as in facebook/wmt19-ru-en
    "m2m100": ("de", "en"),
    "nllb": ("deu_Latn", "eng_Latn"),
    "mbart50": ("de_DE", "en_XX"),
    "mbart-cc25": ("de_DE", "en_XX"),  # fine-tuned for one pair, as facebook/mbart-large-en-ro
    "bart": (None, None),
    "t5": (None, None),
    "t5-gated": (None, None),  # v1.1: gated feed-forward, output projection of its own, state not scaled
}
FAMILIES: tuple[str, ...] = tuple(LANGUAGES)

_PIECES = 300
_POSITIONS = 256
_LEARNT = 16
_UPDATES = 30
_FAIRSEQ_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]

# A tokenizer, a model and the contents of its generation config.
_Parts = tuple[PreTrainedTokenizerBase, PreTrainedModel, dict[str, Any]]


def make_family(name: str, directory: Path) -> None:
    """Write tokenizer, model and generation config of the family to ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]), _double_precision():
        torch.manual_seed(1)
        tokenizer, model, generation = _MAKERS[name](directory)
        model.generation_config = GenerationConfig(**generation)
        tokenizer.save_pretrained(directory)
        source_lang, target_lang = LANGUAGES[name]
        if source_lang is not None:
            tokenizer.src_lang, tokenizer.tgt_lang = source_lang, target_lang
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
        _learn(model, tokenizer)
    model.float().save_pretrained(directory)


@contextmanager
def _double_precision() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        # FSMT's own makes a tensor of single precision for the lowest number of double precision, which fails
        with patch.object(modeling_fsmt, "fill_with_neg_inf", lambda t: torch.full_like(t, torch.finfo(t.dtype).min)):
            yield
    finally:
        torch.set_default_dtype(before)


def target_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """What ``tokenizer(text_target=texts)`` should give: FSMT's encodes with the source's vocabulary."""
    if isinstance(tokenizer, FSMTTokenizer):
        turned = FSMTTokenizer(
            langs=[tokenizer.tgt_lang, tokenizer.src_lang],
            src_vocab_file=tokenizer.tgt_vocab_file,
            tgt_vocab_file=tokenizer.src_vocab_file,
            merges_file=tokenizer.merges_file,
        )
        return list(turned(list(texts)).input_ids)
    return list(tokenizer(text_target=list(texts)).input_ids)


def _marian(directory: Path) -> _Parts:
    german, english = _texts()
    pieces = _train_sentencepiece(german, directory / "source.spm", "unigram")
    pieces += _train_sentencepiece(english, directory / "target.spm", "unigram")
    tokens = list(dict.fromkeys(["</s>", "<unk>", *(piece for piece, _ in pieces), "<pad>"]))
    vocabulary = _write_vocabulary(tokens, directory / "vocab.json")
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


def _fsmt(directory: Path) -> _Parts:
    return _make_fsmt(directory, separate=False)


def _fsmt_separate(directory: Path) -> _Parts:
    return _make_fsmt(directory, separate=True)


def _make_fsmt(directory: Path, *, separate: bool) -> _Parts:
    german, english = (
        [
            sacremoses.MosesTokenizer(lang=language).tokenize(
                text, aggressive_dash_splits=True, return_str=True, escape=True
            )
            for text in texts
        ]
        for language, texts in zip(("de", "en"), _texts(), strict=True)
    )
    bpe = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    bpe.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    # The trainer would number the letters that end words as they come out of a hash table, and pairs that are equally
    # frequent are merged by number: named beforehand, they have the same numbers in every run.
    endings = sorted({f"{word[-1]}</w>" for text in german + english for word in text.split()})
    trainer = trainers.BpeTrainer(
        vocab_size=_PIECES,
        special_tokens=_FAIRSEQ_SPECIALS + endings,
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    bpe.train_from_iterator(german + english, trainer)
    merges = json.loads(bpe.to_str())["model"]["merges"]
    (directory / "merges.txt").write_text("".join(f"{left} {right}\n" for left, right in merges), "utf-8")

    shared = sorted(bpe.get_vocab(), key=bpe.get_vocab().__getitem__)
    sides = [shared, shared]
    if separate:
        used = [{token for text in texts for token in bpe.encode(text).tokens} for texts in (german, english)]
        sides = [_FAIRSEQ_SPECIALS + sorted(tokens) for tokens in used]
    for side, tokens in zip(("src", "tgt"), sides, strict=True):
        _write_vocabulary(tokens, directory / f"vocab-{side}.json")
    tokenizer = FSMTTokenizer(
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


def _m2m100(directory: Path) -> _Parts:
    german, english = _texts()
    pieces = _train_sentencepiece(german + english, directory / "sentencepiece.bpe.model", "bpe")
    tokens = _FAIRSEQ_SPECIALS + [piece for piece, _ in pieces]
    _write_vocabulary(tokens, directory / "vocab.json")
    files = {
        "vocab_file": str(directory / "vocab.json"),
        "spm_file": str(directory / "sentencepiece.bpe.model"),
    }
    # Real checkpoints name the language tokens as special ones; the class alone does not.
    languages = [f"__{code}__" for code in M2M100Tokenizer(**files).lang_code_to_id]
    tokenizer = M2M100Tokenizer(**files, additional_special_tokens=languages, model_max_length=_POSITIONS)
    return tokenizer, *_m2m100_model(tokenizer, filler=8)


def _nllb(directory: Path) -> _Parts:
    german, english = _texts()
    bpe = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    bpe.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    trainer = trainers.BpeTrainer(vocab_size=_PIECES, special_tokens=_FAIRSEQ_SPECIALS, show_progress=False)
    bpe.train_from_iterator(german + english, trainer)
    merges = [tuple(merge) for merge in json.loads(bpe.to_str())["model"]["merges"]]
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


def _mbart50(directory: Path) -> _Parts:
    german, english = _texts()
    pieces = _train_sentencepiece(german + english, directory / "sentencepiece.bpe.model", "unigram")
    tokenizer = MBart50Tokenizer(
        vocab=[("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *pieces], model_max_length=_POSITIONS
    )
    return tokenizer, *_mbart_model(tokenizer, decoder_start=2)


def _mbart_cc25(directory: Path) -> _Parts:
    german, english = _texts()
    pieces = _train_sentencepiece(german + english, directory / "sentencepiece.bpe.model", "unigram")
    specials = [(token, 0.0) for token in _FAIRSEQ_SPECIALS]
    behind = [(token, 0.0) for token in [*MBartTokenizer().lang_code_to_id, "<mask>"]]
    tokenizer = MBartTokenizer(vocab=[*specials, *pieces, *behind], model_max_length=_POSITIONS)
    return tokenizer, *_mbart_model(tokenizer, decoder_start=tokenizer.convert_tokens_to_ids("en_XX"))


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


def _bart(directory: Path) -> _Parts:
    german, english = _texts()
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=_PIECES + 256,
        special_tokens=_FAIRSEQ_SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(german + english, trainer)
    merges = [tuple(merge) for merge in json.loads(bpe.to_str())["model"]["merges"]]
    tokenizer = BartTokenizer(vocab=bpe.get_vocab(), merges=merges, model_max_length=_POSITIONS)
    config = BartConfig(vocab_size=len(tokenizer), **_transformer_size(), forced_bos_token_id=0)
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


def _t5(directory: Path) -> _Parts:
    return _make_t5(directory, feed_forward_proj="relu")


def _t5_gated(directory: Path) -> _Parts:
    return _make_t5(directory, feed_forward_proj="gated-gelu", tie_word_embeddings=False)


def _make_t5(directory: Path, **variant: Any) -> _Parts:
    german, english = _texts()
    pieces = _train_sentencepiece(german + english, directory / "spiece.model", "unigram")
    sentinels = [(f"<extra_id_{number}>", 0.0) for number in range(99, -1, -1)]
    tokenizer = T5Tokenizer(
        vocab=[("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *pieces, *sentinels],
        extra_ids=100,
        model_max_length=_POSITIONS,
    )
    config = T5Config(
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


_MAKERS: dict[str, Callable[[Path], _Parts]] = {
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


def _texts() -> tuple[list[str], list[str]]:
    return [german for german, _ in SENTENCES], [english for _, english in SENTENCES]


def _train_sentencepiece(texts: Sequence[str], path: Path, kind: str) -> list[tuple[str, float]]:
    """Train a sentencepiece model, write it to ``path``, give its pieces and scores without the specials."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=written,
        model_type=kind,
        vocab_size=_PIECES,
        hard_vocab_limit=kind == "bpe",
        character_coverage=1.0,
        minloglevel=2,
    )
    path.write_bytes(written.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    return [(processor.id_to_piece(id_), processor.get_score(id_)) for id_ in range(3, len(processor))]


def _write_vocabulary(tokens: Sequence[str], path: Path) -> dict[str, int]:
    vocabulary = {token: number for number, token in enumerate(tokens)}
    path.write_text(json.dumps(vocabulary, ensure_ascii=False), "utf-8")
    return vocabulary


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


def _learn(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Fit the model to the first sentences, enough that its outputs differ from source to source and end."""
    generation = model.generation_config
    sources = tokenizer([source for source, _ in SENTENCES[:_LEARNT]], padding=True, return_tensors="pt")
    rows = target_ids(tokenizer, [target for _, target in SENTENCES[:_LEARNT]])
    rows = [torch.tensor(row[: row.index(generation.eos_token_id) + 1]) for row in rows]
    labels = pad_sequence(rows, batch_first=True, padding_value=-100)
    inputs = labels.roll(1, dims=1).where(labels != -100, generation.pad_token_id)
    inputs[:, 0] = generation.decoder_start_token_id
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.98))
    model.eval()
    for _ in range(_UPDATES):
        logits = model(**sources, decoder_input_ids=inputs, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
