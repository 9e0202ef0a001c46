"""Nearest-neighbour machine translation: teach a translation model your domain from your translation memory."""

import logging
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from knnmt.allocator import tune_allocator
from knnmt.errors import KnnmtError

if TYPE_CHECKING:
    from knnmt.datastore import Store
    from knnmt.decoding import Settings, Translator, attach, explain
    from knnmt.methods import Method, load_combiner, register
    from knnmt.options import option
    from knnmt.workflow import build, collect, evaluate, fit, forget, info, use, verify

logging.getLogger("knnmt").addHandler(logging.NullHandler())  # silent unless the user configures logging

__version__ = version("knnmt")

__all__ = [
    "KnnmtError",
    "Method",
    "Settings",
    "Store",
    "Translator",
    "attach",
    "build",
    "collect",
    "evaluate",
    "explain",
    "fit",
    "forget",
    "info",
    "load_combiner",
    "option",
    "register",
    "tune_allocator",
    "use",
    "verify",
]

_MODULES = {
    "Method": "knnmt.methods",
    "Store": "knnmt.datastore",
    "Settings": "knnmt.decoding",
    "Translator": "knnmt.decoding",
    "attach": "knnmt.decoding",
    "build": "knnmt.workflow",
    "collect": "knnmt.workflow",
    "evaluate": "knnmt.workflow",
    "explain": "knnmt.decoding",
    "fit": "knnmt.workflow",
    "forget": "knnmt.workflow",
    "info": "knnmt.workflow",
    "load_combiner": "knnmt.methods",
    "option": "knnmt.options",
    "register": "knnmt.methods",
    "use": "knnmt.workflow",
    "verify": "knnmt.workflow",
}


def __getattr__(name: str) -> Any:
    """Import torch and transformers, which take seconds, only when something needs them."""
    if name not in _MODULES:
        raise AttributeError(f"module 'knnmt' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
