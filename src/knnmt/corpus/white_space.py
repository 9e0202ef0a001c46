"""Texts that may hold line ends, as the one line that a model and a test set know."""

import re

# Whatever Python or a reader may take for a line end; not the no-break spaces, which French punctuation needs.
LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_FOLDED = re.compile(f"[ \t{LINE_ENDS}]+")


def in_one_line(text: str) -> str:
    return _FOLDED.sub(" ", text).strip(" ")
