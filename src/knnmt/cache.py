"""The directory for files that can be recreated: exported graphs, the demo's downloads."""

import os
from pathlib import Path


def cache_directory() -> Path:
    """$KNNMT_CACHE, or `knnmt` in the cache directory of the user."""
    own = os.environ.get("KNNMT_CACHE")
    usual = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(own) if own else Path(usual) / "knnmt"
