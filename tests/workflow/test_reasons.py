"""What explanations say of a neighbour's context."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from sentences import SENTENCES
from worlds import QUICK, observed

from knnmt.combiner import Observation
from knnmt.datastore import Store
from knnmt.decoding import Settings, Translator, explain
from knnmt.decoding.reasons import reasons
from knnmt.methods.evidence_inputs import KINDS
from knnmt.model import TranslationModel
from knnmt.workflow import fit

WriteCorpus = Callable[..., list[Path]]


def one(past: int = 0, *, begins: bool = False, cosine: float = 0.0, continued: bool = False) -> Observation:
    """One neighbour of one row."""
    nothing = torch.zeros(1, 1)
    return observed(
        *(nothing, nothing.long(), nothing, nothing, nothing),
        matching_past=torch.tensor([[past]]),
        same_beginning=torch.tensor([[begins]]),
        source_similarity=torch.tensor([[cosine]]),
        continued=torch.tensor([[continued]]),
    )


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (one(), []),
        (one(begins=True), ["both begin a sentence"]),
        (one(2), ["the words before it are the same: “{}”"]),
        (one(2, begins=True), ["the words before it are the same: “{}”, and so is everything up to here"]),
        (one(16), ["the words before it are the same: “… {}”"]),
        (one(cosine=0.29), []),
        (one(cosine=0.456), ["its source is similar (46%)"]),
        (one(cosine=1.0), ["its source has the same words"]),
        (
            one(cosine=1.0, continued=True),
            ["its source has the same words", "it continues a neighbour of the token before"],
        ),
    ],
)
def test_what_is_said(model: TranslationModel, seen: Observation, said: list[str]) -> None:
    codec = model.codec
    so_far = torch.tensor([codec.encode_targets([" ".join(english for _, english in SENTENCES[:4])])[0][:-1]])
    assert seen.matching_past is not None
    past = int(seen.matching_past[0, 0])
    words = codec.decode([so_far[0, -past:].tolist()])[0] if past else ""
    assert reasons(codec, seen, 0, 0, so_far) == [sentence.format(words) for sentence in said]


def test_stored_sentences_are_explained_by_themselves(
    store: Store, model: TranslationModel, write_corpus: WriteCorpus
) -> None:
    dev = write_corpus([(f"{source} Bitte.", target) for source, target in SENTENCES[20:32]], "dev")
    fitted = fit(store.path, dev, "evidence", k=8, model=model, **QUICK).store
    translator = Translator.open(fitted, "evidence", model=model, settings=Settings(beam=1, max_length=8, split=False))
    source, target = SENTENCES[-1]  # stored
    (translation,) = translator.translations([source])
    (sentence,) = translation.sentences
    reference = replace(sentence, target=model.codec.encode_targets([target])[0])
    tokens = explain(translator, replace(translation, sentences=[reference]))["tokens"]
    said = [reason for token in tokens for neighbour in token["neighbours"] for reason in neighbour["reasons"]]
    assert "its source has the same words" in said
    assert any(reason.startswith("the words before it are the same") for reason in said)
    assert "both begin a sentence" in said
    for token in tokens:
        for neighbour in token["neighbours"]:
            assert list(neighbour["contributions"]) == list(KINDS)
    assert any(abs(n["contributions"]["source"]) > 1e-4 for token in tokens for n in token["neighbours"])
