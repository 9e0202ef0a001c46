"""config.json of an index or a combiner, read once, when the store is opened."""

import errno
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from knnmt.datastore.files import why_unreadable
from knnmt.out_of_memory import memory_errors

CONFIG = "config.json"


@dataclass(frozen=True)
class ConfigFile:
    """What config.json said at that moment, or why it could not be read.

    Args:
        directory: where it is
        text: a JSON object; "{}" where there is a problem
        problem: what is wrong and what to do, in a sentence; None if it was read
        fix: what to do about an index or a combiner that cannot be used
    """

    directory: Path
    text: str
    problem: str | None
    fix: str

    @classmethod
    @memory_errors("open the store")
    def read(cls, directory: Path, fix: str) -> Self:
        """One that is missing or damaged is remembered as such: the rest of the store can still be used."""
        path = directory / CONFIG
        problem = None
        try:
            text = path.read_text(encoding="utf-8")
            if not isinstance(json.loads(text), dict):
                problem = f"{path} is damaged; {fix}"
        except (FileNotFoundError, NotADirectoryError):
            problem = f"{path} is missing; {fix}"
        except OSError as error:
            if error.errno == errno.ENOMEM:  # says nothing of the store
                raise
            problem = why_unreadable(error, path)
        except ValueError:
            problem = f"{path} is damaged; {fix}"
        return cls(directory, "{}" if problem else text, problem, fix)

    @property
    def fields(self) -> dict[str, Any]:
        """What it says; a copy, because the snapshot that it belongs to never changes."""
        fields: dict[str, Any] = json.loads(self.text)
        return fields

    def damaged(self) -> str:
        """The sentence for fields that are missing or make no sense."""
        return f"{self.directory / CONFIG} is damaged; {self.fix}"
