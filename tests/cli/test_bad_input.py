"""What the user can mend: one sentence on standard error, exit code 2, nothing on standard output, nothing lost."""

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import safetensors.torch
from transformers import GPT2Config

from knnmt.datastore import staging
from knnmt.decoding import settings
from knnmt.methods import Vanilla
from knnmt.model import TranslationModel

Run = Callable[..., Any]
Snapshot = Callable[[Path], dict[str, str]]

MEMORY = ("memory.de", "memory.en")


@pytest.fixture
def refused(run: Run, world: Path, snapshot: Snapshot) -> Callable[..., None]:
    """Runs a command that must fail with a sentence that `expected` matches."""

    def check(expected: str, *arguments: str, stdin: bytes = b"") -> None:
        before = snapshot(world)
        result = run(*arguments, stdin=stdin)
        assert result.code == 2, result.err
        assert result.out == ""
        assert len(result.complaints) == 1, result.err
        assert result.complaints[0].startswith("knnmt: ")
        sentence = result.complaints[0].removeprefix("knnmt: ")
        assert re.search(expected, sentence), sentence
        assert sentence.endswith(".")
        assert not sentence.endswith("..")
        names = tuple(str(Path(argument)) for argument in arguments)
        assert sentence.startswith(names) or not sentence[0].islower(), sentence
        assert not re.search(r"\.\s+[A-Z]", sentence), f"more than one sentence: {sentence}"
        assert snapshot(world) == before, "something was written or lost"

    return check


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (b"eins\nzwei\n", b"one\n", "^bad.de has 2 lines but bad.en has 1: each line of one must translate"),
        (b"", b"", "^There is no sentence pair in bad.de, bad.en: give lines with text on both sides"),
        (b"\n \n", b"one\ntwo\n", "no sentence pair"),
        (b"eins\nf\xfcnf\n", b"one\nfive\n", "^Line 2 of bad.de is not valid UTF-8: convert the file to UTF-8"),
        (None, b"one\n", "^bad.de does not exist: check the name"),
    ],
    ids=["different lengths", "empty", "blank", "latin-1", "missing"],
)
@pytest.mark.parametrize("command", ["build", "add", "fit", "evaluate"])
def test_corpora(
    refused: Callable[..., None],
    world: Path,
    model_name: str,
    command: str,
    source: bytes | None,
    target: bytes,
    expected: str,
) -> None:
    for name, content in (("bad.de", source), ("bad.en", target)):
        if content is not None:
            (world / name).write_bytes(content)
    arguments = {
        "build": ("build", "new/store", "bad.de", "bad.en", "--model", model_name),
        "add": ("build", "store", "bad.de", "bad.en"),
        "fit": ("fit", "store", "bad.de", "bad.en"),
        "evaluate": ("evaluate", "store", "bad.de", "bad.en"),
    }
    refused(expected, *arguments[command])


def test_one_text_file_alone(refused: Callable[..., None], model_name: str) -> None:
    refused("^memory.de is plain text without a partner", "build", "new", "memory.de", "--model", model_name)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (("memory.en", "memory.de"), "^memory.en is en by its name, .*: give the source file first, .*or use --force"),
        (("memory.de", "dev.de"), "^memory.de and dev.de are both de by their names: give the source file and"),
        (("memory.de", "dev.de", "memory.en", "dev.en"), "as in `memory.de memory.en dev.de dev.en`, or use --force"),
        (("memory.de", "./memory.de"), "^memory.de is given twice: name each file once"),
        (("memory.xlf",), "^memory.xlf is a .xlf file, which knnmt does not read: export a TMX"),
        (("utf16.de", "memory.en"), "^utf16.de looks like UTF-16: convert it with `iconv"),
        (("swapped.tsv",), "^Line 1 of swapped.tsv names its columns en, de: put them in the order"),
    ],
    ids=["swapped", "one language", "shell", "twice", "xliff", "utf-16", "header"],
)
@pytest.mark.parametrize("command", ["build", "fit", "evaluate"])
def test_wrong_files(
    refused: Callable[..., None], world: Path, command: str, files: tuple[str, ...], expected: str
) -> None:
    (world / "memory.xlf").write_text("<xliff/>")
    (world / "utf16.de").write_text("ja\n", encoding="utf-16")
    (world / "swapped.tsv").write_text("en\tde\nyes\tja\n")
    refused(expected, command, "store", *files)


def test_models(refused: Callable[..., None], world: Path, model_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    new = ("build", "new", *MEMORY)
    refused("^new is a new store; say which model it is for with --model", *new)
    refused("^There is no model directory ./gone; check the path", *new, "--model", "./gone")
    refused("no directory here and could not be fetched from the hub", *new, "--model", "somebody/gone")
    (world / "empty").mkdir()
    refused("^empty is not a Hugging Face model directory .*; give a directory", *new, "--model", "empty")
    GPT2Config(n_layer=1).save_pretrained(world / "gpt")
    refused("^gpt is a gpt2 model without an encoder; give an encoder-decoder", *new, "--model", "gpt")
    shutil.copytree(model_name, "broken")
    (world / "broken/config.json").write_text("{")
    refused("^The model broken could not be read", *new, "--model", "broken")
    shutil.copy(Path(model_name, "config.json"), "broken")
    (world / "broken/model.safetensors").unlink()
    refused("^The model broken could not be read", *new, "--model", "broken")


def test_a_store_made_with_another_model(refused: Callable[..., None], world: Path, model_name: str) -> None:
    shutil.copytree(model_name, "other")
    weights = safetensors.torch.load_file("other/model.safetensors")
    name = next(name for name in weights if name.endswith("fc1.weight"))
    safetensors.torch.save_file(weights | {name: weights[name] + 1}, "other/model.safetensors", {"format": "pt"})
    expected = "^The store store was made with another model.* use "
    refused(expected, "build", "store", *MEMORY, "--model", "other")
    refused(expected, "fit", "store", "dev.de", "dev.en", "--model", "other")
    refused(expected, "evaluate", "store", "test.de", "test.en", "--model", "other")
    refused(expected, "translate", "store", "--model", "other", stdin=b"Der Hund.\n")
    refused("made with key layer 'output', not 'ffn_input'", "build", "store", *MEMORY, "--key-layer", "ffn_input")


EVERY_COMMAND = pytest.mark.parametrize(
    "arguments",
    [
        ("build", "PLACE", *MEMORY),
        ("fit", "PLACE", "dev.de", "dev.en"),
        ("evaluate", "PLACE", "test.de", "test.en"),
        ("translate", "PLACE"),
        ("info", "PLACE"),
        ("info", "PLACE", "--json"),
    ],
    ids=" ".join,
)


@EVERY_COMMAND
def test_stores(refused: Callable[..., None], world: Path, model_name: str, arguments: tuple[str, ...]) -> None:
    def refuse(expected: str, place: str) -> None:
        command = [place if argument == "PLACE" else argument for argument in arguments]
        refused(expected, *command, stdin=b"Der Hund.\n")

    manifest = json.loads(Path("store/manifest.json").read_text())
    for name, change in (("newer", {"format": 99}), ("moved", {"model": manifest["model"] | {"id": "/gone/model"}})):
        shutil.copytree("store", name)
        Path(name, "manifest.json").write_text(json.dumps(manifest | change))
    refuse("^The store newer has format 99 and this knnmt reads up to 3; upgrade with", "newer")
    shutil.copytree("store", "damaged")
    os.truncate("damaged/manifest.json", 50)
    refuse("^damaged/manifest.json is damaged; restore it", "damaged")
    shutil.copytree("store", "short")
    os.truncate("short/segments/000001/keys.npy", 500)
    refuse("short/segments/000001", "short")
    if arguments[0] != "info":
        refuse("no longer in /gone/model; say where it is now with --model", "moved")
    if arguments[0] != "build":
        refuse("^There is no store at gone; make one with `knnmt build`", "gone")
        refuse("^There is no store at memory.de; make one", "memory.de")
        refuse("is not a store", ".")


def test_a_place_where_no_store_can_be(refused: Callable[..., None], world: Path, model_name: str) -> None:
    refused("^memory.de is a file; name a directory", "build", "memory.de", *MEMORY, "--model", model_name)
    (world / "mine").mkdir()
    (world / "mine/thesis.txt").write_text("dear")
    for place in ("mine", "mine/", "./mine"):
        refused("^mine is neither empty nor a store; choose another", "build", place, *MEMORY, "--model", model_name)


@EVERY_COMMAND
def test_a_store_whose_name_is_not_utf8(refused: Callable[..., None], arguments: tuple[str, ...]) -> None:
    for name in (b"f\xfcnf", b"f\xfcnf/store"):
        os.makedirs(name, exist_ok=True)
        command = [os.fsdecode(name) if argument == "PLACE" else argument for argument in arguments]
        expected = r"^The name f\\xfcnf.* is not UTF-8; choose another directory"
        refused(expected, *command, stdin=b"Der Hund.\n")


def test_methods(refused: Callable[..., None]) -> None:
    dev = ("dev.de", "dev.en")
    refused(r"^K is 1024, but the store store holds only \d+ entries; lower --k", "fit", "store", *dev, "--k", "1024")
    refused("^There is no method magic; choose one of", "fit", "store", *dev, "--method", "magic")
    for name in ("base", "bleu"):
        refused(f"^The name {name} means something else to other commands", "fit", "store", *dev, "--name", name)
    refused("cannot name a combiner; use letters", "fit", "store", *dev, "--name", "../escape")
    nothing = r"^Nothing named robust was fitted for the store store \(fitted: vanilla\); run"
    refused(nothing, "translate", "store", "--method", "robust", stdin=b"Der Hund.\n")
    refused(nothing, "evaluate", "store", *dev, "--methods", "base,robust")
    refused(
        "^The baseline vanilla is not among", "evaluate", "store", *dev, "--methods", "base", "--baseline", "vanilla"
    )
    refused(
        "^A beam of 2 has no 3 best translations; raise --beam", "translate", "store", "--beam", "2", "--n-best", "3"
    )
    refused("^There is no index of kind 'tree'; choose one of", "build", "store", *MEMORY, "--index", "tree")
    refused("^There is no device tpu9 here; use", "translate", "store", "--device", "tpu9")


@pytest.mark.parametrize("place", ["store", "new/store"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk(
    refused: Callable[..., None], model_name: str, monkeypatch: pytest.MonkeyPatch, place: str, code: int
) -> None:
    def full(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(staging, "write_block", full)
        expected = rf"^Cannot write .*: {os.strerror(code)}; make room and run the same command again"
        refused(expected, "build", place, *MEMORY, "--model", model_name, "--keep-duplicates")
    monkeypatch.setattr(Vanilla, "save", full)
    refused(
        expected, "fit", "store", "dev.de", "dev.en", "--method", "vanilla", "--decode-best", "0", "--k", "4", "--force"
    )


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_read_only_directory(
    refused: Callable[..., None], world: Path, model_name: str, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Simulated: root, who runs tests in a container, may write anywhere."""
    real_open, real_mkdir = os.open, os.mkdir

    def open_to_read(path: object, flags: int, *rest: object, **names: object) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR) and not Path(str(path)).is_absolute():
            raise OSError(code, os.strerror(code), str(path))
        return real_open(path, flags, *rest, **names)  # type: ignore[arg-type]

    def mkdir(path: object, *rest: object, **names: object) -> None:
        if not Path(str(path)).is_absolute():
            raise OSError(code, os.strerror(code), str(path))
        real_mkdir(path, *rest, **names)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", open_to_read)
    monkeypatch.setattr(os, "mkdir", mkdir)
    expected = rf"^Cannot write .*: {os.strerror(code)}; make .* writable or choose another directory"
    refused(expected, "build", "store", *MEMORY)
    refused(expected, "build", "new/store", *MEMORY, "--model", model_name)
    refused(
        expected, "fit", "store", "dev.de", "dev.en", "--method", "vanilla", "--decode-best", "0", "--k", "4", "--force"
    )


@pytest.mark.parametrize(
    ("command", "option", "value", "expected"),
    [
        ("translate", "beam", "10001", "^--beam is 10001, but at most 1,024 is possible; lower it"),
        ("evaluate", "beam", "9" * 30, "at most 1,024"),
        ("translate", "batch-size", "1000000", "^--batch-size is 1000000, but at most 1,024 is possible"),
        ("translate", "n-best", "5000", "^--n-best is 5000, but at most 1,024 is possible"),
        ("evaluate", "max-length", "1000000000", "^--max-length is 1000000000, but at most 65,536 is possible"),
        ("translate", "beam", "1000", r"^The model knows \d+ tokens, so --beam must be less; lower it"),
        ("evaluate", "beam", "1000", "so --beam must be less"),
        ("translate", "threads", "100000", r"^--threads is 100000, but at most \d+ make sense on \d+ cores; lower it"),
        ("evaluate", "threads", "100000", "^--threads is"),
        ("fit", "threads", "100000", "^--threads is"),
        ("build", "threads", "100000", "^--threads is"),
        ("fit", "k", "1025", "^--k is 1025, which is not possible; give a whole number from 1 to 1,024"),
        ("fit", "k", "4x", "^--k is 4x, which is not a whole number from 1 to 1,024"),
        ("fit", "top", "100000000000", r"^--top is 100000000000, but the model knows \d+ tokens; lower it"),
    ],
)
def test_limits(
    refused: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    option: str,
    value: str,
    expected: str,
) -> None:
    """Told at once: no model is loaded for it."""
    monkeypatch.setattr(TranslationModel, "load", lambda *_, **__: pytest.fail("a model was loaded"))
    files = {"build": MEMORY, "fit": ("dev.de", "dev.en"), "evaluate": ("test.de", "test.en"), "translate": ()}
    refused(expected, command, "store", *files[command], f"--{option}", value)


def test_a_beam_beyond_the_memory(refused: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "machine_memory", lambda: 10_000_000)
    expected = "^A beam of 200 for 1024 sentences at a time takes [0-9.]+ GB, and this machine has 0.0 GB; lower"
    refused(expected, "translate", "store", "--beam", "200", "--batch-size", "1024")
