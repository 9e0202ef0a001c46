"""Which characters a reader sees, and which end a line."""

import re

# Unicode's default ignorable code points (zero-width characters, byte order mark, soft hyphen, fillers, tags), control
# characters, annotation marks and the empty Braille cell; not all of category Cf, some of which Arabic shows.
_INVISIBLE = (
    r"\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff"
)
_VISIBLE = re.compile(f"[^{_INVISIBLE}]")

# All that Python or an editor treats as a line end; not the no-break spaces, which French punctuation needs.
LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_WHITE_SPACE = re.compile(f"[ \t{LINE_ENDS}]+")


def has_text(text: str) -> bool:
    """Whether the text has a visible character; white space does not count."""
    return _VISIBLE.search(text) is not None


def in_one_line(text: str) -> str:
    """The text with line ends and repeated spaces replaced by one space, as models and test sets write sentences."""
    return _WHITE_SPACE.sub(" ", text).strip(" ")
