"""Speed benchmarks: warm epochs of methods on one graph, what a step is made of, and what the machine could do."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from headtail.config import Config, make_config
from headtail.datasets.synthetic import heavy_tailed
from headtail.errors import ConfigError, did_you_mean
from headtail.experiments.ceilings import peak_memory, start_of_memory
from headtail.experiments.variants import Settings, Variant, settings_of
from headtail.graph.graph import Graph, build_graph
from headtail.graph.tables import rows_of
from headtail.graph.task import make_task
from headtail.methods import make_method
from headtail.sampling.sampler import Batch
from headtail.training.observer import Observer
from headtail.training.trainer import GnnMethod

PHASES = ("sample", "gather", "forward", "backward", "optimiser")
# Steps whose phases are timed, after as many to warm up as one hand counts.
TIMED_STEPS, WARM_STEPS = 20, 5


@dataclass(frozen=True)
class Scale:
    """The size of a benchmark graph, and the settings that the paper has for one of that size."""

    nodes: int
    links: int
    directed: bool = True
    features: int = 128
    settings: Settings = field(default_factory=dict)


SCALES: dict[str, Scale] = {
    "collab": Scale(235_868, 1_179_052, directed=False),
    "ppa": Scale(
        576_289, 21_231_931, directed=False, settings={"fanout_output": "all", "fanout_inner": 4, "blocked": 5 / 6}
    ),
    "citation2": Scale(2_927_963, 30_387_995),
}


def scale_named(text: str) -> Scale:
    """Returns a scale by its name, or one of N nodes and E directed links written "N,E".

    Raises:
        ConfigError: it is neither.
    """
    if text in SCALES:
        return SCALES[text]
    sizes = text.split(",")
    if len(sizes) == 2 and all(size.strip().isdigit() for size in sizes):
        return Scale(int(sizes[0]), int(sizes[1]))
    known = did_you_mean(text, list(SCALES))
    raise ConfigError(f"unknown scale {text!r}; {known} Or give nodes and links, such as 100000,500000.")


def bench_graph(scale: Scale, seed: int = 0) -> Graph:
    """Returns a graph of that size with heavy-tailed degrees; one seed, one graph."""
    return build_graph(heavy_tailed(scale.nodes, scale.links, scale.features, seed, scale.directed))


@dataclass(frozen=True)
class Measured:
    """What a method cost; `phases` in milliseconds, one after the other, with nothing beside them."""

    method: str
    seconds_per_epoch: float
    epochs: int
    links: int
    steps: int
    phases: Mapping[str, float]
    flops_per_step: float
    bytes_per_step: float
    peak_bytes: int
    gnn_node_encodings: int
    mlp_node_encodings: int

    @property
    def links_per_second(self) -> float:
        return self.links / self.seconds_per_epoch

    @property
    def step_ms(self) -> float:
        return 1e3 * self.seconds_per_epoch / self.steps

    @property
    def wait_ms(self) -> float:
        """What a step takes beyond forward, backward and optimiser: sampling that is not hidden, and idle time."""
        return self.step_ms - sum(self.phases[name] for name in ("forward", "backward", "optimiser"))


def bench(
    graph: Graph, variant: Variant, config: Config, trace: Path | None = None, observer: Observer | None = None
) -> Measured:
    """Trains a few epochs, the first to warm up, then takes single steps apart; `trace` gets a profile of some.

    Raises:
        ConfigError: the method does not learn by row-wise or edge-wise batches of a GNN, or there is but one epoch.
    """
    if config.training.epochs < 2:
        raise ConfigError("a benchmark needs two epochs or more, since the first one warms up; raise --epochs.")
    task = make_task(graph, config)
    method = make_method(task, config)
    if not isinstance(method, GnnMethod):
        raise ConfigError(f"{variant.name} cannot be benchmarked; AML, SAGE, GAT, SMLP and their variants can.")
    start_of_memory(method.device)
    history = method.fit(None, observer).history[1:]
    peak = peak_memory(method.device)
    taken = take_apart(method, trace)
    return Measured(
        method=variant.name,
        seconds_per_epoch=statistics.median(record["seconds"] for record in history),
        epochs=len(history),
        links=history[-1]["links"],
        steps=len(method.batches()),
        phases=taken.phases,
        flops_per_step=taken.flops,
        bytes_per_step=taken.least_bytes,
        peak_bytes=peak,
        gnn_node_encodings=history[-1]["gnn_node_encodings"],
        mlp_node_encodings=history[-1]["mlp_node_encodings"],
    )


def bench_config(variant: Variant, scale: Scale | None, given: Settings) -> Config:
    """Returns the preset `paper` with what the scale and the user say; almost all links are trained on."""
    few = {"valid_share": 1e-6, "test_share": 1e-6, "eval_negatives": 10, "epochs": 4} if scale else {"epochs": 4}
    of_scale = dict(scale.settings) if scale else {}
    return make_config("paper", settings={**few, **of_scale, **settings_of(variant), **given})


@dataclass(frozen=True)
class Taken:
    """Phases of a step in milliseconds, floating-point operations of its products, and the fewest bytes it moves."""

    phases: dict[str, float]
    flops: float
    least_bytes: float


def take_apart(method: GnnMethod, trace: Path | None = None) -> Taken:
    """Times the phases of single steps, each waited for, so that nothing hides behind anything else."""
    optimizer = method.optimizer()
    method.model.train()
    batches = endless(method)
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
    return Taken({name: statistics.median(values) for name, values in times.items()}, flops, least)


def endless(method: GnnMethod) -> Iterator[Batch]:
    """Yields batches, epoch after epoch."""
    batches, seed = method.batches(), 0
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
    passes, width = 5 * element * shape.dim, 4 * shape.in_dim
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
    path.parent.mkdir(parents=True, exist_ok=True)
    profile.export_chrome_trace(str(path))
