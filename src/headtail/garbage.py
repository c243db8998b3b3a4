"""When nobody looks for garbage: while modules are imported, which stay, and when a program ends."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unwatched() -> Iterator[None]:
    """Looks for no garbage during the block: among the objects of modules it takes an eighth of the time of imports."""
    watched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if watched:
            gc.enable()


@contextmanager
def left_behind() -> Iterator[None]:
    """Has whatever is there after the block end with the process: looking through torch first takes a second."""
    try:
        yield
    finally:
        gc.freeze()
