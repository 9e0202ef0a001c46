import json
import os
import sys
from pathlib import Path

import pytest

from knnmt.errors import EvaluationError
from knnmt.evaluation import comet_scores

# Takes the options of unbabel-comet 2's comet-score, reads files as it does, and prints and writes what it would.
STAND_IN = '''
import argparse, json, os, sys

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("-s", "--sources", required=True)
parser.add_argument("-t", "--translations", nargs="+", required=True)
parser.add_argument("-r", "--references", required=True)
parser.add_argument("--batch_size", type=int, default=16)
parser.add_argument("--gpus", type=int, default=1)
parser.add_argument("--quiet", action="store_true")
parser.add_argument("--only_system", action="store_true")
parser.add_argument("--to_json", default="")
parser.add_argument("--model", default="Unbabel/wmt22-comet-da")
options = parser.parse_args()

def lines(path):
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in file]

def likeness(source, translation, reference):
    """Knows source from reference: a letter of the latter found in the translation counts double."""
    found = 2 * len(set(reference) & set(translation)) + len(set(source) & set(translation))
    return found / (2 * len(set(reference)) + len(set(source)))

if options.model == "silent":
    raise SystemExit(3)
print("Seed set to 1", file=sys.stderr)
if options.model == "Unbabel/unknown":
    print("Traceback (most recent call last):\\n  File ...", file=sys.stderr)
    raise SystemExit("KeyError: \\"Model 'Unbabel/unknown' not supported by COMET.\\"")
if options.model == "killed":
    os.kill(os.getpid(), 9)
if options.gpus:
    raise SystemExit("lightning_fabric.utilities.exceptions.MisconfigurationException: No supported gpu backend found!")
report, scores = {}, {}
for path in options.translations:
    rows = [
        {"src": source, "mt": translation, "ref": reference}
        for source, translation, reference in zip(lines(options.sources), lines(path), lines(options.references))
    ]
    for row in rows:
        row["COMET"] = likeness(*row.values())
    report[path] = rows
    scores[path] = sum(row["COMET"] for row in rows) / len(rows)
if not options.only_system:
    for number in range(len(rows)):
        for path in options.translations:
            print(f"{path}\\tSegment {number}\\tscore: {report[path][number]['COMET']:.4f}")
for path, score in scores.items():
    print(f"{path}\\tscore: {score:.4f}")
if options.model == "other-form":
    report = [rows]
if options.model == "cut-short":
    report[options.translations[-1]].pop()
if options.model == "relative":
    report = {os.path.relpath(path): rows for path, rows in report.items()}
if options.to_json and options.model != "no-report":
    with open(options.to_json, "w", encoding="utf-8") as file:
        json.dump(report, file, ensure_ascii=False, indent=4)
    print(f"Predictions saved in: {options.to_json}.")
with open(os.path.join(os.path.dirname(__file__), "seen.json"), "w") as file:
    json.dump([vars(options), report], file)
'''

SOURCES = ["Das Haus\u2028hier", "Guten\r\nTag", "", "schön"]
REFERENCES = ["the house", "good day", "x", "beautiful"]
SYSTEMS = {
    "base": ["the mouse", "good\nbye", "", "bright"],
    "robust/β=10": ["the house", "good day", "xy", "beautiful"],
    "third": ["", "", "", "fine"],
}


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the stand-in, first on the PATH; `seen.json` there tells what the last call was given."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "stand_in.py").write_text(STAND_IN, encoding="utf-8")
    command = directory / "comet-score"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{directory}/stand_in.py" "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    return directory


def expected_score(translations: list[str]) -> float:
    total = 0.0
    for source, translation, reference in zip(SOURCES, translations, REFERENCES, strict=True):
        source, letters = source.replace("\r\n", " "), set(translation.replace("\n", " "))
        found = 2 * len(set(reference) & letters) + len(set(source) & letters)
        total += found / (2 * len(set(reference)) + len(set(source)))
    return total / len(SOURCES)


@pytest.mark.parametrize("model", [None, "Unbabel/XCOMET-XL", "relative"])
def test_every_system_gets_its_own_score(stand_in: Path, model: str | None) -> None:
    scores = comet_scores(SOURCES, SYSTEMS, REFERENCES, model)
    expected = {name: expected_score(translations) for name, translations in SYSTEMS.items()}
    assert scores == pytest.approx(expected, abs=1e-12), "to full precision, not as printed"
    assert len(set(scores.values())) == 3
    options, report = json.loads((stand_in / "seen.json").read_text())
    assert options["model"] == (model or "Unbabel/wmt22-comet-da")
    assert (options["quiet"], options["only_system"], options["gpus"]) == (True, True, 0)
    first = next(iter(report.values()))
    assert [row["src"] for row in first] == ["Das Haus\u2028hier", "Guten Tag", "", "schön"]
    assert [row["mt"] for row in first] == ["the mouse", "good bye", "", "bright"]
    assert not any(os.path.exists(path) for path in (options["sources"], options["to_json"])), "nothing is left behind"


def test_a_local_checkpoint(stand_in: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "model.ckpt"
    with pytest.raises(EvaluationError, match=r"checkpoint .*model\.ckpt does not exist"):
        comet_scores(SOURCES, SYSTEMS, REFERENCES, str(checkpoint))
    checkpoint.touch()
    comet_scores(SOURCES, SYSTEMS, REFERENCES, str(checkpoint))
    assert json.loads((stand_in / "seen.json").read_text())[0]["model"] == str(checkpoint)


def test_without_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EvaluationError, match="comet-score, which is not on the PATH: install unbabel-comet"):
        comet_scores(SOURCES, SYSTEMS, REFERENCES, None)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("Unbabel/unknown", r"failed.*: KeyError: \"Model 'Unbabel/unknown' not supported by COMET\.\"$"),
        ("silent", "failed.*: exit code 3$"),
        ("killed", "was ended by signal 9: give it more memory"),
        ("other-form", "scores of an unknown form"),
        ("no-report", "scores of an unknown form"),
        ("cut-short", "did not score all 4 sentences"),
    ],
)
def test_a_command_that_fails(stand_in: Path, model: str, sentence: str) -> None:
    with pytest.raises(EvaluationError, match=sentence):
        comet_scores(SOURCES, SYSTEMS, REFERENCES, model)


def test_a_gpu_is_used_where_there_is_one(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    with pytest.raises(EvaluationError, match="No supported gpu backend found"):
        comet_scores(SOURCES, SYSTEMS, REFERENCES, None)


def test_a_command_that_cannot_be_run(stand_in: Path) -> None:
    (stand_in / "comet-score").write_bytes(b"\x7fELF no program")
    with pytest.raises(EvaluationError, match="cannot be run on temporary files"):
        comet_scores(SOURCES, SYSTEMS, REFERENCES, None)


def test_lists_of_different_length() -> None:
    with pytest.raises(EvaluationError, match="base has 1 translations for 4 references"):
        comet_scores(SOURCES, {"base": ["a"]}, REFERENCES, None)
    with pytest.raises(EvaluationError, match="There are 3 sources for 4 references"):
        comet_scores(SOURCES[1:], SYSTEMS, REFERENCES, None)
