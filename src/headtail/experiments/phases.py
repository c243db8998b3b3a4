"""What a step is made of: its phases by the clock, its operations, and the fewest bytes it can move."""

import errno
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from headtail.files import replacing
from headtail.graph.tables import rows_of
from headtail.sampling.sampler import Batch
from headtail.training.learner import EpochBatches
from headtail.training.recorded import RecordedBatches
from headtail.training.recording import Recorder
from headtail.training.trainer import GnnMethod

PHASES = ("sample", "gather", "forward", "backward", "optimiser")
# Steps whose phases are timed, after as many to warm up as one hand counts.
TIMED_STEPS, WARM_STEPS = 20, 5


@dataclass(frozen=True)
class Taken:
    """Phases of a step in milliseconds, floating-point operations of its products, and the fewest bytes it moves.

    `steps` are those of an epoch.
    """

    steps: int
    phases: dict[str, float]
    flops: float
    least_bytes: float


def take_apart(method: GnnMethod, trace: Path | None = None) -> Taken:
    """Times the phases of single steps, one after the other, so that nothing hides behind anything else."""
    source = method.batches()
    if isinstance(source, RecordedBatches):
        return take_recorded_apart(method, source, trace)
    optimizer = method.optimizer()
    method.model.train()
    batches = endless(method, source)
    times: dict[str, list[float]] = {name: [] for name in PHASES}
    clock = Clock(method.device)
    flops = least = 0.0
    for step in range(WARM_STEPS + TIMED_STEPS):
        with clock("sample"):
            batch = next(batches)
        with clock("gather"):
            gather_inputs(method, batch)
        if step == 0:
            with FlopCounterMode(display=False) as counter:
                method.loss(batch).value.backward()  # type: ignore[no-untyped-call]
            flops, least = float(counter.get_total_flops()), least_bytes(method, batch.unpadded or batch)
        with clock("forward"):
            loss = method.loss(batch)
        with clock("backward"):
            optimizer.zero_grad(set_to_none=True)
            loss.value.backward()  # type: ignore[no-untyped-call]
        with clock("optimiser"):
            optimizer.step()
        if step >= WARM_STEPS:
            for name, taken in clock.last.items():
                times[name].append(taken)
    if trace is not None:
        write_trace(method, batches, optimizer, trace)
    phases = {name: statistics.median(values) for name, values in times.items()}
    return Taken(len(source), phases, flops, least)


def take_recorded_apart(method: GnnMethod, batches: RecordedBatches, trace: Path | None) -> Taken:
    """Times recordings of growing parts of a step by device events: what one adds to the last is a phase.

    Without a recording, the host would be timed and not the GPU.
    """
    optimizer = method.optimizer()
    method.model.train()
    generator = torch.Generator(device=method.device).manual_seed(1)
    plain = next(iter(batches.sampler.epoch(generator)))
    with FlopCounterMode(display=False) as counter:
        method.loss(plain).value.backward()  # type: ignore[no-untyped-call]
    taken = float(counter.get_total_flops()), least_bytes(method, plain)
    batch = next(batches.epoch(generator))

    def forward() -> Tensor:
        return method.loss(batch).value

    def backward() -> None:
        optimizer.zero_grad(set_to_none=True)
        forward().backward()  # type: ignore[no-untyped-call]

    def step() -> None:
        backward()
        optimizer.step()

    parts: dict[str, Callable[[], object]] = {
        "gather": lambda: gather_inputs(method, batch),
        "forward": lambda: forward().detach(),
        "backward": backward,
        "optimiser": step,
    }
    record, times = Recorder(), {"sample": device_ms(batches.draw_again)}
    for name, work in parts.items():
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            work()
        torch.cuda.current_stream().wait_stream(aside)
        times[name] = device_ms(record(work))
    for name, before in (("optimiser", "backward"), ("backward", "forward")):
        times[name] -= times[before]
    if trace is not None:
        write_trace(method, endless(method, batches), optimizer, trace)
    return Taken(len(batches), times, *taken)


def device_ms(work: Callable[[], object]) -> float:
    """Returns the median time of some work by device events, in milliseconds."""
    times = []
    for _ in range(WARM_STEPS + TIMED_STEPS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return float(statistics.median(times[WARM_STEPS:]))


def endless(method: GnnMethod, batches: EpochBatches[Batch]) -> Iterator[Batch]:
    """Yields batches, epoch after epoch."""
    seed = 0
    while True:
        seed += 1
        yield from batches.epoch(torch.Generator(device=method.device).manual_seed(seed))


def gather_inputs(method: GnnMethod, batch: Batch) -> None:
    """Reads the features that a batch is computed from, as forward does once more."""
    assert batch.graph is not None
    if method.model.mlp_encodes_nodes:
        rows_of(batch.graph.features, batch.nodes)
        rows_of(batch.graph.pre_encoded, batch.nodes)
    if batch.neighbourhood is not None:
        rows_of(batch.graph.features, batch.neighbourhood.nodes)


class Clock:
    """Times what is done inside `with clock(name)`, in milliseconds, waiting for a GPU at both ends."""

    def __init__(self, device: torch.device) -> None:
        self.wait: Callable[[], None] = torch.cuda.synchronize if device.type == "cuda" else lambda: None
        self.last: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.wait()
        start = time.perf_counter()
        yield
        self.wait()
        self.last[name] = 1e3 * (time.perf_counter() - start)


def least_bytes(method: GnnMethod, batch: Batch) -> float:
    """Returns what a step must move at least: inputs once; per layer, rows in and out, and back in three passes."""
    shape, element = method.model.shape, 2 if method.precision == "bf16" else 4
    assert batch.graph is not None
    passes, width = 5 * element * shape.dim, element * shape.in_dim
    pairs = batch.positive.shape[1] + batch.negative.shape[1]
    total = float(passes * shape.scorer_layers * pairs)
    if method.model.mlp_encodes_nodes:
        branches = 2 if shape.residual else 1
        total += batch.nodes.numel() * (2 * width + passes * branches * shape.layers)
    if batch.neighbourhood is not None:
        total += batch.neighbourhood.nodes.numel() * width
        for place, block in enumerate(batch.neighbourhood.blocks):
            row = width if place == 0 else 2 * element * shape.dim
            total += block.num_targets * passes + block.adjacency.col.numel() * row
    return total


def write_trace(
    method: GnnMethod, batches: Iterator[Batch], optimizer: torch.optim.Optimizer, path: Path, steps: int = 5
) -> None:
    """Writes a profile of some steps that trace viewers read."""
    step = method.step(optimizer)
    for _ in range(3):
        step(next(batches))
    with torch.profiler.profile() as profile:
        for _ in range(steps):
            step(next(batches))
        if method.device.type == "cuda":
            torch.cuda.synchronize()
    with replacing(path) as temporary, TemporaryDirectory(dir=path.parent, prefix=".trace.") as folder:
        trace = Path(folder) / "trace.json"
        with suppress(OSError):  # the profiler tells nobody what it could not write, and leaves halves behind
            profile.export_chrome_trace(str(trace))
        if not trace.is_file() or not trace.read_bytes().rstrip().endswith(b"}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        trace.replace(temporary)
