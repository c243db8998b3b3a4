"""Host memory: how much there is to spare, and what is kept and used again, up to a bound.

Large tensors on the CPU are handed back to the operating system by the C library as soon as they are freed,
and every new one is paid for page by page. Training frees and allocates the same sizes every step, so keeping
the memory makes it about three times faster (docs/performance.md). But what is kept falls into pieces that fit no
later tensor: on large graphs the process would grow without end, so now and then all that is free goes back.
"""

import ctypes
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path

# From glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4

# What may be kept: this many bytes, and this share of what was in use when memory was last handed back.
KEPT_BYTES, KEPT_SHARE = 2**31, 0.5


class _Keeper:
    """The C library, once it was told to keep memory, and the bytes that were resident with nothing to spare."""

    libc: ctypes.CDLL | None = None
    needed = 0


def keep_freed_memory() -> bool:
    """Tells glibc to keep freed memory in the process; returns whether it did.

    Without effect on other C libraries, or where the environment variable HEADTAIL_MALLOC is "system".
    """
    if platform.libc_ver()[0] != "glibc" or os.environ.get("HEADTAIL_MALLOC") == "system":
        return False
    libc = ctypes.CDLL(None)
    kept = bool(libc.mallopt(_M_MMAP_MAX, 0) and libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
    if kept and _Keeper.libc is None:
        _Keeper.libc, _Keeper.needed = libc, resident_bytes()
    return kept


def hand_back_surplus() -> bool:
    """Hands free memory back to the system if too much may be kept; returns whether it did. To be called often."""
    if _Keeper.libc is None or resident_bytes() <= KEPT_BYTES + (1 + KEPT_SHARE) * _Keeper.needed:
        return False
    _Keeper.libc.malloc_trim(0)
    _Keeper.needed = resident_bytes()
    return True


def resident_bytes() -> int:
    """Returns the memory that the process holds; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def spare_bytes() -> int:
    """Returns the memory that the process can still get; a very large number where the system does not say.

    That is the least of what the machine, the control group (a container's limit) and `ulimit -v` leave.
    """
    left = [sys.maxsize]
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        left.append(next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024)
    with suppress(OSError, ValueError, StopIteration):
        most = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
        used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
        lines = Path("/sys/fs/cgroup/memory.stat").read_text(encoding="ascii").splitlines()
        cached = next(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
        left.append(max(0, most - used + cached))
    with suppress(OSError, ValueError, ImportError):
        import resource  # POSIX only

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            left.append(max(0, most - pages * os.sysconf("SC_PAGE_SIZE")))
    return min(left)
