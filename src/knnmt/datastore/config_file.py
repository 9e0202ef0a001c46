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
    """The content of config.json when it was read, or why it could not be read.

    Args:
        directory: the directory that config.json is in
        text: a JSON object; "{}" if there is a problem
        problem: one sentence with what is wrong and what to do; None if it was read
        fix: what to do if the index or combiner cannot be used
    """

    directory: Path
    text: str
    problem: str | None
    fix: str

    @classmethod
    @memory_errors("open the store")
    def read(cls, directory: Path, fix: str) -> Self:
        """Read config.json. A missing or damaged file is not an error here: the rest of the store can still be used."""
        path = directory / CONFIG
        problem = None
        try:
            text = path.read_text(encoding="utf-8")
            if not isinstance(json.loads(text), dict):
                problem = f"{path} is damaged; {fix}"
        except (FileNotFoundError, NotADirectoryError):
            problem = f"{path} is missing; {fix}"
        except OSError as error:
            if error.errno == errno.ENOMEM:  # not a problem of the store
                raise
            problem = why_unreadable(error, path)
        except ValueError:
            problem = f"{path} is damaged; {fix}"
        return cls(directory, "{}" if problem else text, problem, fix)

    @property
    def fields(self) -> dict[str, Any]:
        """The parsed content; a copy, because a snapshot never changes."""
        fields: dict[str, Any] = json.loads(self.text)
        return fields

    def damaged(self) -> str:
        """The error message for fields that are missing or invalid."""
        return f"{self.directory / CONFIG} is damaged; {self.fix}"
