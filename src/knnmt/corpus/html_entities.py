"""&ouml; and the other entities of HTML, which XML does not define and many programs write into a TMX."""

import codecs
import re
from functools import cache
from html.entities import html5
from typing import Any, BinaryIO

from lxml import etree

_HEAD = 1 << 16  # bytes; the root element begins within them
_OF_XML = {"lt", "gt", "amp", "quot", "apos"}
_NAMELESS = re.compile(r"<!DOCTYPE\s+[^\s\[>]+(?=\s*[\[>])")  # without an external DTD
_DTD = ' SYSTEM "tmx14.dtd"'


class HtmlEntities(etree.Resolver):  # type: ignore[misc]
    """Replaces every external DTD, so that none is read; definitions in the file itself come first."""

    def resolve(self, url: str, public_id: str, context: Any) -> Any:
        return self.resolve_string(_definitions(), context)


def read_head(file: BinaryIO) -> bytes:
    """The beginning of a file, with a DTD added if it names none: otherwise lxml would not call the resolver."""
    head = file.read(_HEAD)
    encoding = _encoding(head)
    prolog, root, rest = head.partition("<tmx".encode(encoding))
    if not root or len(prolog) % len("<".encode(encoding)):
        return head
    text = prolog.decode(encoding, "surrogatepass")
    text = _NAMELESS.sub(lambda match: match[0] + _DTD, text) if "<!DOCTYPE" in text else f"{text}<!DOCTYPE tmx{_DTD}>"
    return text.encode(encoding, "surrogatepass") + root + rest


def _encoding(head: bytes) -> str:
    """An encoding that decodes and encodes the bytes before the root element without loss."""
    if head.startswith((codecs.BOM_UTF16_LE, b"<\0")):
        return "utf-16-le"
    return "utf-16-be" if head.startswith((codecs.BOM_UTF16_BE, b"\0<")) else "latin-1"


@cache
def _definitions() -> str:
    texts = {name[:-1]: text for name, text in html5.items() if name.endswith(";")}
    # escaped twice: otherwise the character of &LT; would begin a tag
    escaped = {name: "".join(f"&#38;#{ord(each)};" for each in text) for name, text in texts.items()}
    return "".join(f'<!ENTITY {name} "{text}">' for name, text in escaped.items() if name not in _OF_XML)
