"""Host memory: how much there is to spare, and what is kept and used again, up to a bound.

Large tensors on the CPU are handed back to the operating system by the C library as soon as they are freed,
and every new one is paid for page by page. Training frees and allocates the same sizes every step, so keeping
the memory makes it about three times faster (docs/performance.md). But what is kept falls into pieces that fit no
later tensor: on large graphs the process would grow without end, so now and then all that is free goes back.
"""

import ctypes
import os
import platform
from contextlib import suppress
from pathlib import Path

# From glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4

# What may be kept beyond what a piece of work needs: this many bytes and this share of the need, but no more than this
# share of what the process can still get.
KEPT_BYTES, KEPT_SHARE, FREE_SHARE = 2**31, 0.5, 0.25


class _Keeper:
    """The C library, once it was told to keep memory, and how many bytes may be resident.

    That is found after the first piece of work since memory was last handed back: what is resident then, the work
    needed at its height, and the next piece needs it again. None: there was no work yet.
    """

    libc: ctypes.CDLL | None = None
    most: int | None = None


def keep_freed_memory() -> bool:
    """Tells glibc to keep freed memory in the process; returns whether it did.

    Without effect on other C libraries, or where the environment variable HEADTAIL_MALLOC is "system".
    """
    if platform.libc_ver()[0] != "glibc" or os.environ.get("HEADTAIL_MALLOC") == "system":
        return False
    libc = ctypes.CDLL(None)
    kept = bool(libc.mallopt(_M_MMAP_MAX, 0) and libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
    if kept and _Keeper.libc is None:
        _Keeper.libc, _Keeper.most = libc, None
    return kept


def hand_back_surplus() -> bool:
    """Hands free memory back to the system if too much may be kept; returns whether it did.

    To be called after every piece of work that is done many times: a step, a block of rows.
    """
    if _Keeper.libc is None:
        return False
    resident = resident_bytes()
    if _Keeper.most is None:
        _Keeper.most = resident + int(min(KEPT_BYTES + KEPT_SHARE * resident, FREE_SHARE * available_bytes()))
    if resident <= _Keeper.most:
        return False
    _Keeper.libc.malloc_trim(0)
    _Keeper.most = None
    return True


def resident_bytes() -> int:
    """Returns the memory that the process holds for itself, no pages of files; 0 where the system does not say."""
    try:
        _, resident, shared, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def available_bytes() -> int:
    """Returns the memory that the process can still get.

    That is the least of what the machine, its control groups (a container's limit) and `ulimit -v` leave. Pages of
    files count as free, since the system takes them back. Where nobody says anything it is 8 GiB.
    """
    found = [limit - used for limit, used in _group_limits()]
    try:
        facts = Path("/proc/meminfo").read_text(encoding="ascii").split("MemAvailable:")[1]
        found.append(int(facts.split()[0]) * 1024)
    except (OSError, IndexError, ValueError):
        pass
    with suppress(OSError, ValueError, ImportError):
        import resource  # POSIX only

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:  # `ulimit -v`
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            found.append(most - pages * os.sysconf("SC_PAGE_SIZE"))
    return max(0, min(found, default=2**33))


def _group_limits() -> list[tuple[int, int]]:
    """Returns (limit, bytes in use that are no pages of files) of every control group that the process is in."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, kinds, place = line.split(":", 2)
        if kinds == "":  # version 2
            root, limit, used = Path("/sys/fs/cgroup"), "memory.max", "anon"
        elif "memory" in kinds.split(","):
            root, limit, used = Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "total_rss"
        else:
            continue
        path = root / place.lstrip("/")
        for group in (path, *path.parents):
            if not group.is_relative_to(root):
                break
            try:
                most = int((group / limit).read_text(encoding="ascii"))  # "max" is no number and no limit
                stat = dict(row.split() for row in (group / "memory.stat").read_text(encoding="ascii").splitlines())
                found.append((most, int(stat[used])))
            except (OSError, ValueError, KeyError):
                continue
    return found
