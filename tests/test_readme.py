"""What the README shows works as it is written."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import knnmt
from knnmt.cli.main import app
from knnmt.methods import trained
from knnmt.training import train

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ESPRESSO = ROOT / "examples" / "espresso"
HUB = "Helsinki-NLP/opus-mt-de-en"  # what the README names; here the bundled model stands in for it

SNIPPETS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line for block in re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]
BUNDLED = str(ROOT / "models" / "de-en-small")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the README names, a few lines of each; training is short."""

    def short(combiner: Any, features: Any, recipe: Any, perturber: Any) -> Any:
        return train(combiner, features, replace(recipe, updates=20, validate_from=10), perturber)

    monkeypatch.setattr(trained, "train", short)
    monkeypatch.chdir(tmp_path)
    lines = {}
    for name, part in (("train", "memory"), ("dev", "dev"), ("test", "test"), ("manual", "test")):
        for language in ("de", "en"):
            text = (ESPRESSO / f"{part}.{language}").read_text(encoding="utf-8").splitlines()[:24]
            lines[name, language] = text
            Path(f"{name}.{language}").write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    pairs = list(zip(lines["train", "de"], lines["train", "en"], strict=True))
    Path("train.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    units = "".join(
        f'<tu><tuv xml:lang="de"><seg>{source}</seg></tuv><tuv xml:lang="en"><seg>{target}</seg></tuv></tu>'
        for source, target in zip(lines["dev", "de"][12:], lines["dev", "en"][12:], strict=True)
    )
    header = '<header segtype="sentence" adminlang="en" srclang="de" datatype="plaintext"/>'
    Path("export.tmx").write_text(f'<tmx version="1.4">{header}<body>{units}</body></tmx>', encoding="utf-8")
    return tmp_path


def test_there_is_something_to_run() -> None:
    assert len(SNIPPETS) >= 2
    assert len(COMMANDS) >= 6


def test_commands(files: Path) -> None:
    """One after the other, with the redirections that a shell would do."""
    for line in COMMANDS:
        words = shlex.split(line.replace(HUB, BUNDLED), comments=True)[1:]
        given, written = (words[words.index(sign) + 1] if sign in words else None for sign in "<>")
        arguments = [word for word in words if word not in ("<", ">", given, written)]
        text = Path(given).read_text(encoding="utf-8") if given else None
        result = CliRunner().invoke(app, arguments, input=text, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        if written:
            Path(written).write_text(result.stdout, encoding="utf-8")
    assert len(Path("manual.en").read_text(encoding="utf-8").splitlines()) == 24


def test_snippets(files: Path) -> None:
    """One after the other: the second uses the store that the first one made."""
    for snippet in SNIPPETS:
        exec(compile(snippet.replace(HUB, BUNDLED), "README.md", "exec"), {})
    assert knnmt.info("memory")["combiners"]
