"""What figures were measured on."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("torch", "transformers", "faiss-cpu", "onnxruntime", "ctranslate2", "numpy", "knnmt")


def machine(threads: int | None = None) -> str:
    """Processor, threads used, and versions, in one line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.machine())
    flags = next((line for line in lines if line.startswith("flags")), "")
    known = [name for name in ("avx2", "avx512f", "avx512_vnni", "avx_vnni") if name in flags.split()]
    used = "" if threads is None else f", {threads} thread{'s' if threads > 1 else ''} used"
    return f"{model} ({' '.join(known)}), {os.cpu_count()} cores{used}; {versions()}"


def versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
