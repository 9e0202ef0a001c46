"""Commands in messages, ready to copy into a shell."""

import shlex
from pathlib import Path


def command(*words: object) -> str:
    """A `knnmt` command as it is typed in a shell, quoted where paths need it."""
    return shlex.join(["knnmt", *map(_word, words)])


def _word(word: object) -> str:
    name = str(word)
    return f"./{name}" if isinstance(word, Path) and name.startswith("-") else name
