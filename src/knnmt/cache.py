"""Where things are kept that can be made again: exported graphs, the demo's downloads."""

import os
from pathlib import Path


def cache_directory() -> Path:
    """$KNNMT_CACHE, or where programs keep what can be made again."""
    own = os.environ.get("KNNMT_CACHE")
    usual = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(own) if own else Path(usual) / "knnmt"
