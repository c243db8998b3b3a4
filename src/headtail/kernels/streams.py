"""Two pieces of work side by side in a recording: a GPU then starts kernels of one while those of the other run out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def beside(device: torch.device) -> Iterator[Callable[[Tensor], None]]:
    """Has what is done inside recorded on a stream of its own; gradients follow on the same stream.

    Yields:
        What is to be called with the result before it is used. Outside of a recording, both do nothing.
    """
    if device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
        yield lambda result: None
        return
    here = torch.cuda.current_stream(device)
    aside = torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
    aside.wait_stream(here)

    def join(result: Tensor) -> None:
        here.wait_stream(aside)
        result.record_stream(here)

    with torch.cuda.stream(aside):
        yield join
