"""What a machine can do at most, measured: operations and bytes per second; and how much memory was used."""

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from headtail.training.precision import mixed


@dataclass(frozen=True)
class Ceilings:
    """Floating-point operations per second of a large matrix product, bytes per second of a large copy."""

    flops: float
    bytes: float


def measure_ceilings(device: torch.device, precision: str) -> Ceilings:
    """Measures both; a copy counts what is read and what is written."""
    size, length = (8192, 2**28) if device.type == "cuda" else (1024, 2**25)
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
    source, target = torch.ones(length, device=device), torch.empty(length, device=device)
    with mixed(precision, device):
        product = _seconds(lambda: torch.mm(a, b), device)
    return Ceilings(2 * size**3 / product, 8 * length / _seconds(lambda: target.copy_(source), device))


def _seconds(work: Callable[[], object], device: torch.device, repeats: int = 10) -> float:
    """Returns the median time of a call."""
    times = []
    for _ in range(repeats + 3):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[3:])


def start_of_memory(device: torch.device) -> None:
    """Forgets what was used at most so far, where the system can."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> int:
    """Returns the bytes that were used at most: of the GPU, or by the whole process since it started."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
