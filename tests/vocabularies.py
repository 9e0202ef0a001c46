"""Vocabularies of the tests' models, trained on ``SENTENCES``."""

import io
import json
from collections.abc import Sequence
from pathlib import Path

import sentencepiece
from sentences import SENTENCES
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

PIECES = 300
FAIRSEQ_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]


def all_texts() -> tuple[list[str], list[str]]:
    return [german for german, _ in SENTENCES], [english for _, english in SENTENCES]


def train_sentencepiece(texts: Sequence[str], path: Path, kind: str) -> list[tuple[str, float]]:
    """Train a sentencepiece model, write it to ``path``, give its pieces and scores without the specials."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=written,
        model_type=kind,
        vocab_size=PIECES,
        hard_vocab_limit=kind == "bpe",
        character_coverage=1.0,
        minloglevel=2,
    )
    path.write_bytes(written.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    return [(processor.id_to_piece(id_), processor.get_score(id_)) for id_ in range(3, len(processor))]


def train_bpe_of_words(texts: Sequence[str]) -> Tokenizer:
    """Byte pairs within words, as FSMT's."""
    bpe = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    bpe.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    # The trainer would number the letters that end words as they come out of a hash table, and pairs that are equally
    # frequent are merged by number: named beforehand, they have the same numbers in every run.
    endings = sorted({f"{word[-1]}</w>" for text in texts for word in text.split()})
    trainer = trainers.BpeTrainer(
        vocab_size=PIECES,
        special_tokens=FAIRSEQ_SPECIALS + endings,
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return bpe


def write_vocabulary(tokens: Sequence[str], path: Path) -> dict[str, int]:
    vocabulary = {token: number for number, token in enumerate(tokens)}
    path.write_text(json.dumps(vocabulary, ensure_ascii=False), "utf-8")
    return vocabulary
