"""Ranks that are threads of one process: what they compute together is checked without starting any."""

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor

from headtail.graph.message import MessageGraph
from headtail.ranks import ALONE, Ranks

T = TypeVar("T")
_mine = threading.local()
# Python 3.11 has one lock for a cached property of all instances: ranks that are threads, and make it together, would
# wait for each other.
_made_together: Any = vars(MessageGraph)["pre_encoded"]
if hasattr(_made_together, "lock"):
    _made_together.lock = nullcontext()


def current() -> Ranks:
    """Stands in for `headtail.ranks.current`, of which a process has but one."""
    ranks: Ranks = getattr(_mine, "ranks", ALONE)
    return ranks


class ThreadRanks(Ranks):
    """A rank whose exchanges go through a list that all threads see."""

    def __init__(self, rank: int, size: int, barrier: threading.Barrier, told: list[Tensor | None]) -> None:
        self.rank, self.size, self.barrier, self.told, self.beside = rank, size, barrier, told, size

    def sum(self, x: Tensor) -> Tensor:
        return self.each(x).sum(dim=0)

    def each(self, x: Tensor) -> Tensor:
        self.told[self.rank] = x.detach().clone()
        self.barrier.wait()
        parts = [part for part in self.told if part is not None]
        assert len({(part.shape, part.dtype) for part in parts}) == 1, "ranks exchange different things"
        found = torch.stack(parts)
        self.barrier.wait()  # nobody overwrites what others still read
        return found


def on_ranks(size: int, work: Callable[[Ranks], T]) -> list[T]:
    """Runs `work` on every one of so many ranks and returns what each found; an error of one is raised here."""
    barrier, told = threading.Barrier(size, timeout=60), [None] * size
    found: list[T | None] = [None] * size
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            _mine.ranks = ThreadRanks(rank, size, barrier, told)
            found[rank] = work(_mine.ranks)
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    real = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
    for error in real or errors:
        raise error
    return [each for each in found if each is not None]
