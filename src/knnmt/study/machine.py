"""The machine that a figure was measured on."""

import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("torch", "transformers", "faiss-cpu", "onnxruntime", "sacrebleu")
_EXTENSIONS = ("amx_int8", "avx512_vnni", "avx_vnni", "avx512f", "avx2")  # those that change results, widest first


@cache
def processor() -> str:
    """Model and widest vector extension of the processor: they change the last digits of results."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    flags = facts.get("flags", "").split()
    extensions = [name for name in _EXTENSIONS if name in flags]
    return ", ".join([facts.get("model name", platform.machine()), *extensions[:1]])


@cache
def versions() -> dict[str, str]:
    """Versions of everything that computes."""
    found = {"python": platform.python_version(), "knnmt": version("knnmt")}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except ModuleNotFoundError:  # an optional one
            continue
    return found
