"""Draws batches ahead of training in a thread of its own: on a GPU the host is what a step waits for."""

import queue
import threading
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


def drawn_ahead(batches: Iterator[T], depth: int = 2) -> Iterator[T]:
    """Yields what `batches` yields, in the same order, with up to `depth` of them ready in advance.

    Both threads work on the same CUDA stream, so a batch is complete before the step that uses it starts.
    An error in the other thread is raised here; leaving the loop early ends that thread.
    """
    ready: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(item: tuple[T | None, BaseException | None]) -> None:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def draw() -> None:
        try:
            for batch in batches:
                put((batch, None))
                if stop.is_set():
                    return
            put((None, None))
        except BaseException as error:
            put((None, error))

    thread = threading.Thread(target=draw, name="headtail-batches", daemon=True)
    thread.start()
    try:
        while True:
            batch, error = ready.get()
            if error is not None:
                raise error
            if batch is None:
                return
            yield batch
    finally:
        stop.set()
        thread.join()
