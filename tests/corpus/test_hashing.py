import random
import unicodedata
from hashlib import blake2b

from knnmt.corpus import normalise, pair_hash, text_hash


def test_looks_past_case_width_composition_and_white_space() -> None:
    assert normalise("  Stra\u00dfe\u00a0\u3000 \tN\u00ba\uff11\n") == "strasse no1"
    assert normalise("Cafe\u0301") == normalise("CAF\u00c9") == "caf\u00e9"
    assert normalise("\ufb01n") == "fin"
    assert normalise("one two") != normalise("onetwo")
    assert normalise(" \u2028\n") == ""


def test_a_normalised_text_stays_as_it_is() -> None:
    assert normalise(normalise("\u0130\u0353")) == normalise("\u0130\u0353")  # fails without a second NFKC
    generator = random.Random(1)
    letters = [chr(code) for code in range(0x3000) if unicodedata.category(chr(code)) != "Cn"]
    marks = [letter for letter in letters if unicodedata.combining(letter)]
    for _ in range(5000):
        text = "".join(generator.choice(generator.choice((letters, marks))) for _ in range(6))
        assert normalise(normalise(text)) == normalise(text)


def test_text_hash_is_64_bits_of_blake2b() -> None:
    expected = sum(byte << (8 * place) for place, byte in enumerate(blake2b(b"hello you", digest_size=8).digest()))
    assert text_hash("Hello  YOU") == expected
    assert max(text_hash(str(number)) for number in range(200)) >= 1 << 63
    assert max(text_hash(str(number)) for number in range(200)) < 1 << 64


def test_pair_hash_tells_sides_apart() -> None:
    assert pair_hash("Ein Haus", "a house") == pair_hash("ein haus ", "A\tHouse")
    pairs = [("a", "b"), ("b", "a"), ("a b", ""), ("", "a b"), ("ab", ""), ("a\nb", "c"), ("a", "b\nc")]
    assert len({pair_hash(*pair) for pair in pairs}) == len(pairs)
