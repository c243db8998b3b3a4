"""Host memory that is kept and used again.

Large tensors on the CPU are handed back to the operating system by the C library as soon as they are freed,
and every new one is paid for page by page. Training frees and allocates the same sizes every step, so keeping
the memory makes it about three times faster (docs/performance.md).
"""

import ctypes
import os
import platform

# From glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def keep_freed_memory() -> bool:
    """Tells glibc to keep freed memory in the process; returns whether it did.

    Without effect on other C libraries, or where the environment variable HEADTAIL_MALLOC is "system".
    """
    if platform.libc_ver()[0] != "glibc" or os.environ.get("HEADTAIL_MALLOC") == "system":
        return False
    libc = ctypes.CDLL(None)
    return bool(libc.mallopt(_M_MMAP_MAX, 0) and libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
