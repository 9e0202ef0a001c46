"""For mkdocstrings: what stands under "Example:" in a docstring is Python, and is shown as such."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^Example:\n((?: {4}.*\n?|\n)+)", re.MULTILINE)


class Examples(griffe.Extension):
    """Puts a fence around each example."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(match: re.Match[str]) -> str:
    return f"Example:\n    ```python\n{match[1].rstrip()}\n    ```\n"
