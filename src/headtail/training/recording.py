"""Work of a GPU recorded once and played again: it then waits for no Python between its kernels."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import torch

T = TypeVar("T")


class Record(Protocol):
    """Returns what does some work again; what the work returns may be overwritten whenever anything recorded is done.

    The work draws random numbers from `generator` alone, which may be seeded anew between plays.
    """

    def __call__(self, work: Callable[[], T], generator: torch.Generator | None = None) -> Callable[[], T]: ...


class Recorder:
    """Records the kernels of some work as a CUDA graph, without running them.

    All that one recorder records has its memory in common, so only one of its recordings may play at a time. Work that
    draws random numbers gives way to other work.
    """

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        # The memory goes with the last recording that has it, and cannot be had again: so all stay.
        self._recordings: list[torch.cuda.CUDAGraph] = []

    def __call__(self, work: Callable[[], T], generator: torch.Generator | None = None) -> Callable[[], T]:
        recording = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(priority=0 if generator is not None else -1)  # type: ignore[no-untyped-call]
        if generator is not None:
            recording.register_generator_state(generator)
        # Other threads and streams go on meanwhile, and must not disturb the recording.
        with torch.cuda.graph(recording, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
            result = work()
        self._recordings.append(recording)

        def play() -> T:
            recording.replay()
            return result

        return play


def repeated(work: Callable[[], T], generator: torch.Generator | None = None) -> Callable[[], T]:
    """Returns what does the work again, without a recording: for devices that cannot record."""
    return work


def recorder(device: torch.device) -> Record:
    """Returns what records work on that device."""
    return Recorder() if device.type == "cuda" else repeated
