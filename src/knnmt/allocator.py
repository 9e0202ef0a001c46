"""glibc's malloc gives large buffers back to the system and faults them in again at every step of eager PyTorch."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


def tune_allocator() -> bool:
    """Let this process keep its large buffers; worth 1.5 to 2 times in decoding on a CPU.

    The `knnmt` command does this first thing. The library never does it unasked, because it changes the
    whole process. Returns whether the C library took the settings.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(
        mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        and mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
        and mallopt(_M_TOP_PAD, 256 << 20)
    )
