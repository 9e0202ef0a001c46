"""Whether a text says anything: white space and what no reader sees do not."""

import re

# Unicode's default ignorable code points (zero-width signs, byte order mark, soft hyphen, fillers, tags), control
# signs, annotation marks and the empty Braille cell; not all of category Cf, some of which Arabic shows.
_INVISIBLE = (
    r"\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff"
)
_VISIBLE = re.compile(f"[^{_INVISIBLE}]")


def has_text(text: str) -> bool:
    return _VISIBLE.search(text) is not None
