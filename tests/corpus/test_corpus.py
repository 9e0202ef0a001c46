import gzip
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from knnmt.corpus import Corpus, Pair
from knnmt.errors import CorpusError

Write = Callable[[str, str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a text file into the current directory and gives back its name."""
    monkeypatch.chdir(tmp_path)

    def to_file(name: str, text: str) -> str:
        content = text.encode()
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return name

    return to_file


def test_a_mix_of_formats_in_one_corpus(write: Write) -> None:
    paths = [
        write("./a.de", "eins\nzwei\n"),
        write("a.en.gz", "one\ntwo\n"),
        write("m.tsv.gz", "drei\tthree\tbook\nvier\tfour\n"),
        write("sub/b.de", "fünf\n"),
        write("sub/b.en", "five\n"),
        write("h.jsonl", '{"translation": {"de": "sechs", "en": "six"}}\n'),
    ]
    corpus = Corpus([*paths[:4], Path(paths[4]), paths[5]], languages=("deu_Latn", "eng_Latn"))
    expected = [
        Pair("eins", "one", "./a.de", 1),
        Pair("zwei", "two", "./a.de", 2),
        Pair("drei", "three", "book", 1),
        Pair("vier", "four", "m.tsv.gz", 2),
        Pair("fünf", "five", "sub/b.de", 1),
        Pair("sechs", "six", "h.jsonl", 1),
    ]
    assert list(corpus) == expected
    assert list(corpus) == expected, "a corpus can be read again"
    assert (corpus.scan().pairs, corpus.scan().left_out) == (6, {})


def test_the_origin_given_wins_over_the_files_name_only(write: Write) -> None:
    paths = [write("a.de", "ja\n"), write("a.en", "yes\n"), write("m.tsv", "drei\tthree\tbook\nvier\tfour\n")]
    assert [pair.origin for pair in Corpus(paths, origin="mine")] == ["mine", "book", "mine"]


def test_pairs_with_an_empty_side_are_skipped_and_counted(write: Write) -> None:
    paths = [write("a.de", "eins\n \n\nvier\nfünf\n"), write("a.en", "one\ntwo\n\n\u3000\nfive\n")]
    assert [(pair.source, pair.line) for pair in Corpus(paths)] == [("eins", 1), ("fünf", 5)]
    summary = Corpus(paths).scan()
    assert (summary.pairs, summary.left_out) == (2, {"empty": 3})


def test_limit_counts_lines_over_all_files(write: Write) -> None:
    paths = [write("a.de", "eins\n\ndrei\n"), write("a.en", "one\ntwo\nthree\n"), write("m.tsv", "x\ty\nbad line\n")]
    assert [pair.source for pair in Corpus(paths, limit=4)] == ["eins", "drei", "x"]
    summary = Corpus(paths, limit=4).scan()
    assert (summary.pairs, summary.left_out) == (3, {"empty": 1})
    assert [pair.source for pair in Corpus(paths, limit=2)] == ["eins"]
    for limit in (0, -1):
        with pytest.raises(CorpusError, match=f"limit of {limit} lines"):
            Corpus(paths, limit=limit)


def digest(*paths: str, **options: object) -> str:
    return Corpus(paths, **options).scan().digest  # type: ignore[arg-type]


def test_the_digest_does_not_depend_on_where_the_files_lie(write: Write) -> None:
    here = digest(write("a.de", "eins\nzwei\n"), write("a.en", "one\ntwo\n"))
    assert here == digest(write("deep/er/x.txt.gz", "eins\nzwei"), write("y.txt", "\ufeffone\r\ntwo\r\n"))
    tsv = "eins\tone\tbook\nzwei\ttwo\n"
    assert digest(write("m.tsv", tsv)) == digest(write("sub/n.tsv.gz", tsv))


def test_the_digest_depends_on_all_that_is_read(write: Write) -> None:
    source, target = write("a.de", "eins\nzwei\n\n"), write("a.en", "one\ntwo\n\n")
    one, two = write("1.tsv", "eins\tone\n"), write("2.tsv", "zwei\ttwo\n")
    translation = write("h.jsonl", '{"translation": {"de": "eins", "en": "one", "fr": "un"}}\n')
    digests = [
        digest(source, target),
        digest(source, target, limit=1),
        digest(source, target, limit=2),
        digest(source, target, origin="mine"),
        digest(target, source),
        digest(source, target, write("a2.de", "eins\nzwei\n\n"), write("a2.en", "one\ntwo\n\n")),
        digest(write("b.de", "eins\nzwei\n\n\n"), write("b.en", "one\ntwo\n\n\n")),
        digest(write("c.de", "einso\nzwei\n\n"), write("c.en", "ne\ntwo\n\n")),
        digest(write("m.tsv", "eins\tone\nzwei\ttwo\n")),
        digest(write("o.tsv", "eins\tone\tbook\nzwei\ttwo\n")),
        digest(one, two),
        digest(two, one),
        digest(one),
        digest(translation, languages=("de", "en")),
        digest(translation, languages=("fr", "en")),
    ]
    assert len(set(digests)) == len(digests)
    assert digest(source, target, limit=3) == digests[0], "a limit that cuts nothing off changes nothing"


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], "No corpus was given"),
        (["gone.tsv"], r"gone\.tsv does not exist"),
        (["a.de", "gone.en"], r"gone\.en does not exist"),
        (["folder"], r"folder holds no message catalogue \(\.po, \.mo\): name the corpus files in it"),
        (["a.de", "folder"], r"a\.de is plain text without a partner"),
        (["gone.whl"], r"gone\.whl does not exist"),
        (["socket", "a.en"], "socket is not a regular file"),
        (["a.de"], r"a\.de is plain text without a partner"),
        (["shop.pot"], r"shop\.pot is a template, which holds no translations: give the \.po"),
        (["shop.POT.gz", "m.tsv"], r"shop\.POT\.gz is a template, which holds no translations"),
        (["a.de", "a.en", "a.de"], r"a\.de is plain text without a partner"),
        (["a.de", "m.tsv", "a.en"], r"a\.de is plain text without a partner"),
        (["a.de", "long.en"], r"a\.de has 2 lines but long\.en has 3"),
        (["m.tsv", "latin.tsv"], r"Line 2 of latin\.tsv is not valid UTF-8"),
        (["m.tsv", "bad.jsonl"], r"Line 1 of bad\.jsonl is not valid JSON"),
        (["bad.tsv"], r"Line 1 of bad\.tsv has 1 column"),
        (["cut.tsv.gz"], r"cut\.tsv\.gz is cut short"),
        (["empty.tsv"], r"no sentence pair in empty\.tsv"),
        (["blank.de", "a.en"], r"no sentence pair in blank\.de, a\.en"),
    ],
)
def test_scan_names_what_is_wrong(write: Write, names: list[str], sentence: str) -> None:
    for name, text in {
        "a.de": "eins\nzwei\n",
        "a.en": "one\ntwo\n",
        "long.en": "1\n2\n3\n",
        "m.tsv": "a\tb\n",
        "bad.tsv": "a b\n",
        "bad.jsonl": "{\n",
        "empty.tsv": "",
        "blank.de": "\n \n",
        "shop.pot": 'msgid "a"\nmsgstr ""\n',
        "shop.POT.gz": 'msgid "a"\nmsgstr ""\n',
    }.items():
        write(name, text)
    Path("latin.tsv").write_bytes("a\tb\nschön\tfine\n".encode("latin-1"))
    Path("cut.tsv.gz").write_bytes(gzip.compress(b"a\tb\n" * 1000)[:-9])
    Path("folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:  # opening one fails; opening a pipe would wait for a writer
        server.bind("socket")
    corpus = Corpus(names)
    with pytest.raises(CorpusError, match=sentence):
        corpus.scan()
    if "no sentence pair" not in sentence:
        with pytest.raises(CorpusError, match=sentence):
            list(corpus)


def test_memory_does_not_grow_with_the_corpus(write: Write) -> None:
    name = write(
        "big.tsv.gz", "Das ist ein Satz von mittlerer Länge.\tThis is a sentence of middling length.\n" * 50_000
    )
    write("small.tsv.gz", gzip.decompress(Path(name).read_bytes())[:100_000].decode().rsplit("\n", 1)[0])

    def peak(path: str) -> int:
        tracemalloc.start()
        Corpus([path]).scan()
        assert sum(1 for _ in Corpus([path])) > 1000
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    assert peak(name) < peak("small.tsv.gz") + 100_000


def test_a_single_file_needs_no_list(write: Write) -> None:
    name = write("pairs.tsv", "eins\tone\nzwei\ttwo\n")
    for given in (name, Path(name)):
        assert [pair.target for pair in Corpus(given)] == ["one", "two"]
