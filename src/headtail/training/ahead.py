"""Draws batches ahead of training in a thread of its own: a GPU would wait for the host, and a host for its disk."""

import queue
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TypeVar

import torch

T = TypeVar("T")

# Steps that the host may be ahead of the GPU. What a batch is made of is held until its step is over.
IN_FLIGHT = 2


def drawn_ahead(batches: Iterator[T], depth: int = 2, device: torch.device | None = None) -> Iterator[T]:
    """Yields what `batches` yields, in the same order, with up to `depth` of them ready in advance.

    Where `device` is a GPU, batches are drawn on a stream of their own, beside training. An error in the other thread
    is raised here; leaving the loop early ends that thread.
    """
    ready: queue.Queue[tuple[T | None, torch.cuda.Event | None, BaseException | None]] = queue.Queue(maxsize=depth)
    stop = threading.Event()
    on_gpu = device is not None and device.type == "cuda"
    beside = torch.cuda.Stream(device) if on_gpu else None  # type: ignore[no-untyped-call]
    if beside is not None:
        beside.wait_stream(torch.cuda.current_stream(device))

    def put(batch: T | None, error: BaseException | None = None) -> None:
        drawn = None
        if beside is not None and batch is not None:
            drawn = torch.cuda.Event()  # type: ignore[no-untyped-call]
            drawn.record(beside)
        while not stop.is_set():
            try:
                ready.put((batch, drawn, error), timeout=0.1)
                return
            except queue.Full:
                continue

    def draw() -> None:
        try:
            with nullcontext() if beside is None else torch.cuda.stream(beside):
                for batch in batches:
                    put(batch)
                    if stop.is_set():
                        return
                put(None)
        except BaseException as error:
            put(None, error)

    thread = threading.Thread(target=draw, name="headtail-batches", daemon=True)
    thread.start()
    learned: deque[tuple[T, torch.cuda.Event]] = deque()
    try:
        while True:
            batch, drawn, error = ready.get()
            if error is not None:
                raise error
            if batch is None:
                return
            if drawn is not None:
                torch.cuda.current_stream(device).wait_event(drawn)
            yield batch
            if beside is not None:
                over = torch.cuda.Event()  # type: ignore[no-untyped-call]
                over.record(torch.cuda.current_stream(device))
                learned.append((batch, over))
                while len(learned) > IN_FLIGHT:
                    learned.popleft()[1].synchronize()
    finally:
        stop.set()
        thread.join()
        if beside is not None:
            torch.cuda.current_stream(device).wait_stream(beside)
