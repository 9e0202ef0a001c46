"""COMET by the official `comet-score` command: its package cannot be installed in the same environment."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import torch

from knnmt.errors import EvaluationError
from knnmt.evaluation.parallel import check_parallel

COMMAND = "comet-score"


def comet_scores(
    sources: Sequence[str], hypotheses: Mapping[str, Sequence[str]], references: Sequence[str], model: str | None = None
) -> dict[str, float]:
    """The COMET score of each system: the mean over its sentences.

    Args:
        sources: One per sentence.
        hypotheses: Detokenised translations of each system, in the sources' order.
        references: One per sentence.
        model: Name of a COMET model or path of a checkpoint (`.ckpt`); None: the command's default.
    """
    check_parallel(hypotheses, references)
    if len(sources) != len(references):
        raise EvaluationError(f"There are {len(sources)} sources for {len(references)} references: give one for each.")
    command = find_comet(model)
    try:
        with TemporaryDirectory(prefix="knnmt-comet-") as directory:
            return _run(command, Path(directory), sources, hypotheses, references, model)
    except OSError as error:
        raise EvaluationError(
            f"{command} cannot be run on temporary files ({error.strerror}): "
            "make room for them, or install unbabel-comet again."
        ) from error


def find_comet(model: str | None = None) -> str:
    """The path of the command. Raises `EvaluationError` if the command or the checkpoint does not exist."""
    command = shutil.which(COMMAND)
    if command is None:
        raise EvaluationError(
            f"COMET needs the command {COMMAND}, which is not on the PATH: install unbabel-comet in an environment "
            "of its own, with `pipx install unbabel-comet` for example."
        )
    if model is not None and model.endswith(".ckpt") and not Path(model).is_file():
        raise EvaluationError(f"The COMET checkpoint {model} does not exist: check its path.")
    return command


def _run(
    command: str,
    directory: Path,
    sources: Sequence[str],
    hypotheses: Mapping[str, Sequence[str]],
    references: Sequence[str],
    model: str | None,
) -> dict[str, float]:
    report = directory / "scores.json"
    # numbered, because a system's name may not be a valid file name
    files = {name: directory / f"system-{number}.txt" for number, name in enumerate(hypotheses)}
    arguments = [command, "-s", _write(directory / "sources.txt", sources)]
    arguments += ["-t", *(_write(files[name], hypotheses[name]) for name in hypotheses)]
    arguments += ["-r", _write(directory / "references.txt", references)]
    arguments += ["--gpus", "1" if torch.cuda.is_available() else "0"]  # its default of 1 needs a GPU
    arguments += ["--quiet", "--only_system", "--to_json", str(report)]
    if model is not None:
        arguments += ["--model", model]
    done = subprocess.run(
        arguments, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode < 0:
        raise EvaluationError(
            f"{COMMAND} was ended by signal {-done.returncode}: "
            "give it more memory or a smaller model, or leave COMET out."
        )
    if done.returncode > 0:
        last_line = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1].strip()
        raise EvaluationError(f"{COMMAND} failed, so fix what it says or leave COMET out: {last_line}")
    return _read(report, {name: path.name for name, path in files.items()}, len(sources))


def _write(path: Path, sentences: Sequence[str]) -> str:
    lines = [re.sub(r"[\r\n]+", " ", sentence) for sentence in sentences]  # the command reads one sentence per line
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return str(path)


def _read(report: Path, files: Mapping[str, str], sentences: int) -> dict[str, float]:
    """Mean scores from the report {file: [{"src", "mt", "ref", "COMET"}, …]}, where files have given or resolved paths.

    The printed scores are not used: they are rounded and may be mixed with other output.
    """
    try:
        segments = {Path(file).name: rows for file, rows in json.loads(report.read_text(encoding="utf-8")).items()}
        scores = {name: [float(row["COMET"]) for row in segments[file]] for name, file in files.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise EvaluationError(f"{COMMAND} wrote scores of an unknown form: install unbabel-comet 2.") from error
    if any(len(values) != sentences for values in scores.values()):
        raise EvaluationError(f"{COMMAND} did not score all {sentences} sentences: install unbabel-comet 2.")
    return {name: fmean(values) for name, values in scores.items()}
