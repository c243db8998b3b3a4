"""Speed benchmarks: warm epochs of methods on one graph, what a step is made of, and what the machine could do."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headtail.config import Config, make_config
from headtail.datasets.synthetic import heavy_tailed
from headtail.errors import ConfigError, did_you_mean
from headtail.experiments.ceilings import peak_memory, start_of_memory
from headtail.experiments.phases import take_apart
from headtail.experiments.variants import Settings, Variant, settings_of
from headtail.graph.graph import Graph, build_graph
from headtail.graph.task import make_task
from headtail.methods import make_method
from headtail.training.observer import Observer
from headtail.training.trainer import GnnMethod


@dataclass(frozen=True)
class Scale:
    """The size of a benchmark graph, and the settings that the paper has for one of that size."""

    nodes: int
    links: int
    directed: bool = True
    features: int = 128
    settings: Settings = field(default_factory=dict)


# What is learned where pairs are ranked among all others (Hits@K), and how ppa sees its neighbours.
HITS: Settings = {"negatives": "uniform", "objective": "squared_hinge"}
WIDE: Settings = {"fanout_output": "all", "fanout_inner": 4, "blocked": 5 / 6}

SCALES: dict[str, Scale] = {
    "collab": Scale(235_868, 1_179_052, directed=False, settings=HITS),
    "ppa": Scale(576_289, 21_231_931, directed=False, settings={**HITS, **WIDE}),
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
        steps=taken.steps,
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
