"""Texts that may hold line ends, as the one line that a model and a test set know."""

import re

_FOLDED = re.compile(r"[ \t\r\n\f\v]+")  # not the no-break spaces, which French punctuation needs


def in_one_line(text: str) -> str:
    return _FOLDED.sub(" ", text).strip(" ")
