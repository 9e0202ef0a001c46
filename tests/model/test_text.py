"""Token ids of every family, with its language tokens and its traps."""

from collections.abc import Callable
from pathlib import Path

import pytest
from families import FAMILIES, LANGUAGES, target_ids
from sentences import SENTENCES
from worlds import in_threads

from knnmt.errors import ModelError
from knnmt.model import TorchEngine, TranslationModel
from knnmt.model.loading import load_pretrained
from knnmt.model.text import Codec

TEXTS = [target for _, target in SENTENCES[:12]]


def codec(family: str, directory: Path, **options: str) -> Codec:
    model, tokenizer = load_pretrained(str(directory), "cpu")
    source_lang, target_lang = LANGUAGES[family]
    return Codec(model, tokenizer, source_lang, target_lang, **options)


@pytest.mark.parametrize("family", FAMILIES)
def test_targets_are_what_the_model_predicts(family: str, family_directory: Callable[[str], Path]) -> None:
    mine = codec(family, family_directory(family))
    specials = set(mine.prefix) | {mine.eos}
    with mine.bound() as tokenizer:
        expected = target_ids(tokenizer, TEXTS)
    for row, raw in zip(mine.encode_targets(TEXTS), expected, strict=True):
        assert row[-1] == mine.eos
        assert row[:-1] == [token for token in raw if token not in specials]
    assert mine.decode(mine.encode_targets(TEXTS)) == TEXTS


@pytest.mark.parametrize(
    ("family", "prefix"),
    [
        ("marian", ["<pad>"]),
        ("fsmt", ["</s>"]),
        ("m2m100", ["</s>", "__en__"]),
        ("nllb", ["</s>", "eng_Latn"]),
        ("mbart50", ["</s>", "en_XX"]),
        ("mbart-cc25", ["en_XX"]),
        ("bart", ["</s>", "<s>"]),
        ("t5", ["<pad>"]),
    ],
)
def test_the_prefix_is_what_the_decoder_is_given(
    family: str, prefix: list[str], family_directory: Callable[[str], Path]
) -> None:
    mine = codec(family, family_directory(family))
    assert mine.tokenizer.convert_ids_to_tokens(list(mine.prefix)) == prefix


@pytest.mark.parametrize("family", ["m2m100", "nllb", "mbart50", "mbart-cc25"])
def test_multilingual_models_ask_for_languages(family: str, family_directory: Callable[[str], Path]) -> None:
    model, tokenizer = load_pretrained(str(family_directory(family)), "cpu")
    with pytest.raises(ModelError, match="--source-lang and --target-lang"):
        Codec(model, tokenizer)
    with pytest.raises(ModelError, match="does not know the language xx"):
        Codec(model, tokenizer, LANGUAGES[family][0], "xx")


def test_a_model_of_one_direction_refuses_another(family_directory: Callable[[str], Path]) -> None:
    model, tokenizer = load_pretrained(str(family_directory("marian")), "cpu")
    with pytest.raises(ModelError, match="leave --source-lang out"):
        Codec(model, tokenizer, "fr", None)


def test_fsmt_encodes_targets_with_the_targets_vocabulary(family_directory: Callable[[str], Path]) -> None:
    mine = codec("fsmt-separate", family_directory("fsmt-separate"))
    before = mine.encode_sources(["Starten Sie den Dienst neu."])
    wrong = mine.tokenizer(text_target=TEXTS)["input_ids"]
    assert mine.encode_targets(TEXTS) != wrong
    assert mine.encode_sources(["Starten Sie den Dienst neu."]) == before, "the tokenizer is as it was"


def test_nothing_behind_an_end_of_sentence_is_predicted(family_directory: Callable[[str], Path]) -> None:
    mine = codec("marian", family_directory("marian"))
    row = mine.encode_targets(["Restart</s> the service."])[0]
    assert row.count(mine.eos) == 1
    assert row[-1] == mine.eos


def test_truncation_keeps_what_closes_a_source(family_directory: Callable[[str], Path]) -> None:
    for family in ("marian", "mbart-cc25"):
        mine = codec(family, family_directory(family))
        ids = mine.encode_sources(["Haus " * 3000])[0]
        cut = mine.truncate_source(ids)
        closing = 1 if family == "marian" else 2
        assert len(ids) > mine.max_length == len(cut)
        assert cut[-closing:] == ids[-closing:]
        assert cut[:-closing] == ids[: mine.max_length - closing]


def test_a_source_prefix_stands_before_every_source(family_directory: Callable[[str], Path]) -> None:
    plain = codec("t5", family_directory("t5"))
    with_prefix = codec("t5", family_directory("t5"), source_prefix="translate German to English: ")
    text = "Das Wetter ist heute schön."
    assert with_prefix.encode_sources([text]) == plain.encode_sources(["translate German to English: " + text])


def test_the_bundled_model_is_found_by_name() -> None:
    model = TranslationModel.load("de-en-small", device="cpu")
    assert (model.name, model.codec.source_lang, model.codec.target_lang) == ("de-en-small", "de", "en")
    assert model.dim == 256


@pytest.mark.parametrize("family", ["nllb", "mbart50", "mbart-cc25"])
def test_an_ordinary_piece_is_no_language(family: str, family_directory: Callable[[str], Path]) -> None:
    model, tokenizer = load_pretrained(str(family_directory(family)), "cpu")
    piece = next(token for token in tokenizer.get_vocab() if token.isalpha() and token.isascii())
    with pytest.raises(ModelError, match=f"does not know the language {piece}"):
        Codec(model, tokenizer, LANGUAGES[family][0], piece)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_target_of_the_greatest_length_fits(family: str, family_directory: Callable[[str], Path]) -> None:
    model = TranslationModel.load(
        str(family_directory(family)), source_lang=LANGUAGES[family][0], target_lang=LANGUAGES[family][1], device="cpu"
    )
    token = model.codec.encode_targets(["Restart the service."])[0][0]
    target = [token] * (model.codec.max_length - 1) + [model.codec.eos]
    states = TorchEngine(model).teacher_forced(model.codec.encode_sources(["Haus"]), [target])
    assert len(states.keys) == model.codec.max_length


@pytest.mark.parametrize("family", ["m2m100", "nllb", "mbart50", "mbart-cc25"])
def test_two_directions_share_a_tokenizer(family: str, family_directory: Callable[[str], Path]) -> None:
    model, tokenizer = load_pretrained(str(family_directory(family)), "cpu")
    source, target = LANGUAGES[family]
    forth = Codec(model, tokenizer, source, target)
    alone = forth.encode_sources(TEXTS), forth.encode_targets(TEXTS)
    before = tokenizer.src_lang, tokenizer.tgt_lang, tokenizer(TEXTS)["input_ids"]
    back = Codec(model, tokenizer, target, source)
    assert back.encode_sources(TEXTS) != alone[0]
    assert (forth.encode_sources(TEXTS), forth.encode_targets(TEXTS)) == alone
    assert (tokenizer.src_lang, tokenizer.tgt_lang, tokenizer(TEXTS)["input_ids"]) == before, "it is as it was"


@pytest.mark.parametrize("family", ["marian", "fsmt-separate", "m2m100", "nllb", "t5"])
def test_threads_share_a_tokenizer(family: str, family_directory: Callable[[str], Path]) -> None:
    model, tokenizer = load_pretrained(str(family_directory(family)), "cpu")
    languages = LANGUAGES[family]
    codecs = [Codec(model, tokenizer, *languages)]
    if codecs[0].multilingual:
        codecs.append(Codec(model, tokenizer, *languages[::-1]))

    def all_of(mine: Codec) -> object:
        targets = mine.encode_targets(TEXTS)
        return mine.encode_sources(TEXTS), targets, mine.decode(targets)

    expected = [all_of(mine) for mine in codecs]
    found = in_threads(lambda number: [all_of(codecs[number % len(codecs)]) for _ in range(20)])
    assert found == [[expected[number % len(codecs)]] * 20 for number in range(len(found))]
