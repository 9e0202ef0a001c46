"""Make glibc's malloc keep large buffers: by default eager PyTorch requests them from the system at every step."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


def tune_allocator() -> bool:
    """Let this process keep its large buffers; decoding on a CPU becomes 1.5 to 2 times faster.

    The `knnmt` command calls this when it starts. The library never calls it by itself, because it changes the whole
    process. Returns whether the C library accepted the settings.
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
