"""What the README shows works as it is written."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ESPRESSO = ROOT / "examples" / "espresso"
HUB = "Helsinki-NLP/opus-mt-de-en"  # what the README names; here the bundled model stands in for it

SNIPPETS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [line.strip() for line in re.findall(r"^    (knnmt \w.*)$", README, re.MULTILINE)]
SETUP = 'model, tokenizer = (loaded := TranslationModel.load("de-en-small")).hf, loaded.codec.tokenizer\n'


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the README names, a few lines of each."""
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
    """One after the other, in a shell; fits are shortened."""
    program = f"{shlex.quote(sys.executable)} -m knnmt"
    script = []
    for line in COMMANDS:
        line = re.sub(r"\s+#.*", "", line).replace(HUB, "de-en-small").replace("knnmt ", f"{program} ", 1)
        if " fit " in line:
            line += " --updates 20 --validate-from 10"
        script.append(line)
    done = subprocess.run(["bash", "-e", "-c", "\n".join(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(Path("manual.en").read_text(encoding="utf-8").splitlines()) == 24


def test_snippets(files: Path) -> None:
    """One after the other: the second uses the store that the first one made."""
    import knnmt
    from knnmt.model import TranslationModel

    names: dict[str, object] = {"TranslationModel": TranslationModel, "knnmt": knnmt}
    exec(SETUP, names)
    for snippet in SNIPPETS:
        exec(compile(snippet.replace(HUB, "de-en-small"), "README.md", "exec"), names)
    assert knnmt.info("memory")["combiners"]
    shutil.rmtree("memory")
