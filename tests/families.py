"""Small translation models with real tokenizers, one for each family of Hugging Face models.

Each is saved in the layout of the family's real checkpoints, so that ``AutoTokenizer`` and
``AutoModelForSeq2SeqLM`` load it offline. The tokenizers are trained on ``SENTENCES``. The weights are random and
then learn for a moment from the first third of them: purely random weights, however wide, say the same few tokens
over and over and never end a sentence, and a test of keys, neighbours or beams could not fail.

They are drawn and trained in double precision and rounded at the end. In single precision Adam makes a whole step out
of a gradient that is nothing but rounding, so that every processor would get a model of its own, with near-ties of its
own; this way all get the same weights, to the last bit or nearly so.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import torch
from checkpoints import MAKERS
from sentences import SENTENCES
from torch.nn.utils.rnn import pad_sequence
from transformers import FSMTTokenizer, GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase
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

_LEARNT = 16
_UPDATES = 30


def make_family(name: str, directory: Path) -> None:
    """Write tokenizer, model and generation config of the family to ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]), _double_precision():
        torch.manual_seed(1)
        tokenizer, model, generation = MAKERS[name](directory)
        model.generation_config = GenerationConfig(**generation)  # type: ignore[no-untyped-call]
        tokenizer.save_pretrained(directory)
        source_lang, target_lang = LANGUAGES[name]
        if source_lang is not None:
            tokenizer.src_lang, tokenizer.tgt_lang = source_lang, target_lang
        if hasattr(model, "final_logits_bias"):
            model.get_buffer("final_logits_bias").normal_()
        _learn(model, tokenizer)
    model.float().save_pretrained(directory)  # type: ignore[no-untyped-call]


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
        turned = FSMTTokenizer(  # type: ignore[no-untyped-call]
            langs=[tokenizer.tgt_lang, tokenizer.src_lang],
            src_vocab_file=tokenizer.tgt_vocab_file,
            tgt_vocab_file=tokenizer.src_vocab_file,
            merges_file=tokenizer.merges_file,
        )
        return list(turned(list(texts)).input_ids)
    return list(tokenizer(text_target=list(texts)).input_ids)


def _learn(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Fit the model to the first sentences, enough that its outputs differ from source to source and end."""
    generation = model.generation_config
    sources = tokenizer([source for source, _ in SENTENCES[:_LEARNT]], padding=True, return_tensors="pt")
    rows = target_ids(tokenizer, [target for _, target in SENTENCES[:_LEARNT]])
    whole = [torch.tensor(row[: row.index(generation.eos_token_id) + 1]) for row in rows]
    labels = pad_sequence(whole, batch_first=True, padding_value=-100)
    inputs = labels.roll(1, dims=1).where(labels != -100, generation.pad_token_id)
    inputs[:, 0] = generation.decoder_start_token_id
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.98))
    model.eval()  # type: ignore[no-untyped-call]
    for _ in range(_UPDATES):
        logits = model(**sources, decoder_input_ids=inputs, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
