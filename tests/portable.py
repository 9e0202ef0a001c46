"""The tests as on other processors: `make test-portable`, or `python tests/portable.py tests/decoding -x`.

PyTorch, MKL, OpenBLAS, NumPy and faiss choose their code by the processor and can be told to take another's; the last
digits of sums are then others. All settings are run, and a table at the end says which failed. A setting that the
processor has no instructions for, or that changes nothing here (on an AVX2 machine that of AVX2), is left out and
listed as such.
"""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

Environment = dict[str, str]

# MKL's own switch has an effect on Intel's processors only, MKL_CBWR on all.
SETTINGS: dict[str, Environment] = {
    "as it is": {},
    "SSE": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
        "FAISS_SIMD_LEVEL": "NONE",
    },
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
        "FAISS_SIMD_LEVEL": "AVX2",
    },
    "AVX-512": {
        "ATEN_CPU_CAPABILITY": "avx512",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
        "OPENBLAS_CORETYPE": "SkylakeX",
        "FAISS_SIMD_LEVEL": "AVX512",
    },
    "two threads": {"OMP_NUM_THREADS": "2"},
    "noise": {"KNNMT_ROUNDING": "1e-6"},  # see rounding.py
}
NEEDS = {"AVX2": {"avx2", "fma"}, "AVX-512": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}}
VARIABLES = {name for environment in SETTINGS.values() for name in environment}


def clean(environment: Environment) -> Environment:
    """The environment of a setting, without what the user's own says of processors."""
    mine = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return mine | {"OMP_NUM_THREADS": "1"} | environment


def workers(environment: Environment) -> list[str]:
    """Of pytest, for as many threads as there are cores: more would wait for each other."""
    threads = int(environment.get("OMP_NUM_THREADS", "1"))
    return ["-n", str(min(8, max(1, (os.cpu_count() or 1) // threads))), "--dist", "worksteal"]


def fingerprint() -> str:
    """Of results whose last digits depend on the code that each library takes."""
    import faiss
    import numpy as np
    import torch

    random = np.random.default_rng(0)
    few, many = (random.standard_normal((rows, 96), dtype=np.float32) for rows in (30, 2000))
    one, other = torch.from_numpy(few), torch.from_numpy(many)
    results = [(one @ other.T).numpy(), torch.softmax(one, 1).numpy(), torch.layer_norm(one, (96,)).numpy()]
    results += [(other.T @ other).sum().numpy(), few @ many.T, many.T @ many, np.exp(few)]
    for threshold in (1 << 20, 1):  # without BLAS and with
        faiss.cvar.distance_compute_blas_threshold = threshold
        results.append(faiss.knn(few, many, 9)[0])
    digest = hashlib.blake2b(b"".join(np.ascontiguousarray(result).tobytes() for result in results))
    return digest.hexdigest() + os.environ.get("KNNMT_ROUNDING", "")


def fingerprint_in(environment: Environment) -> str:
    program = [sys.executable, __file__, "--fingerprint"]
    return subprocess.run(program, env=clean(environment), check=True, capture_output=True, text=True).stdout


def instructions() -> set[str]:
    """What the processor knows, as Linux names it; nothing elsewhere."""
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.exists() else []
    return {flag for line in lines if line.startswith("flags") for flag in line.split(":", 1)[1].split()}


def run(name: str, environment: Environment, plain: str, arguments: list[str]) -> tuple[str, bool]:
    """What became of a setting, and whether it is fine."""
    if not NEEDS.get(name, set()) <= instructions():
        return "left out: this processor does not have it", True
    if environment and fingerprint_in(environment) == plain:
        return "left out: changes nothing on this machine", True
    begin = time.monotonic()
    command = [sys.executable, "-m", "pytest", *workers(environment), *arguments]
    code = subprocess.run(command, env=clean(environment)).returncode
    return f"{'passed' if code == 0 else 'FAILED'} in {time.monotonic() - begin:.0f} s", code == 0


def main(arguments: list[str]) -> int:
    plain = fingerprint_in({})
    outcomes = {}
    for name, environment in SETTINGS.items():
        shown = " ".join(f"{variable}={value!r}" for variable, value in environment.items())
        print(f"\n{name}: {shown}", flush=True)
        outcomes[name] = run(name, environment, plain, arguments)
    print()
    for name, (outcome, _) in outcomes.items():
        print(f"{name:12} {outcome}")
    return 0 if all(fine for _, fine in outcomes.values()) else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["--fingerprint"]:
        print(fingerprint())
    else:
        sys.exit(main(sys.argv[1:]))
