import pytest

from knnmt.corpus.languages import nearest_language


@pytest.mark.parametrize(
    ("wanted", "names", "found"),
    [
        ("de", ("en", "de"), "de"),
        ("deu_Latn", ("de", "en"), "de"),
        ("de_DE", ("de", "en"), "de"),
        ("de", ("en_XX", "de_DE"), "de_DE"),
        ("en_XX", ("deu_Latn", "eng_Latn"), "eng_Latn"),
        ("arb_Arab", ("ar", "en"), "ar"),
        ("zho_Hans", ("zh", "en"), "zh"),
        ("fr", ("de", "en"), None),
        ("de", (), None),
        ("hr", ("sr", "en"), None),
        ("zh_Hant", ("zh_Hans", "zh_Hant"), "zh_Hant"),
        ("no", ("nn", "nb_NO"), "nb_NO"),
        ("nob_Latn", ("nn", "no"), "no"),
        ("nno_Latn", ("nb", "no"), None),
        ("Klingonese", ("klingonese", "en"), "klingonese"),
        ("de", ("not a language", "de"), "de"),
    ],
)
def test_names_of_one_language_match(wanted: str, names: tuple[str, ...], found: str | None) -> None:
    assert nearest_language(wanted, names) == found


@pytest.mark.parametrize(
    ("wanted", "names", "found"),
    [
        ("de", ("en", "de_AT", "de"), "de"),
        ("de", ("de_AT", "de_DE"), "de_DE"),
        ("de", ("de-CH",), "de-CH"),
        ("de_AT", ("de_DE", "de_AT"), "de_AT"),
        ("deu_Latn", ("de_Informal", "de"), "de"),
        ("pt", ("pt_PT", "pt_BR"), "pt_BR"),
        ("zh", ("zh_Hant", "zh_Hans"), "zh_Hans"),
        ("gl", ("es", "pt"), None),
        ("de", (), None),
    ],
)
def test_of_a_languages_variants_the_nearest(wanted: str, names: tuple[str, ...], found: str | None) -> None:
    assert nearest_language(wanted, names) == found
