"""Trainings that take a tenth of a second: graphs, settings, interruptions, and what of a run must repeat exactly."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headtail import LinkPredictor
from headtail.datasets.synthetic import planted
from headtail.graph.graph import Graph, build_graph
from headtail.training.observer import Observer, Record

# Four batches per epoch on `small_graph`, so that an epoch can be interrupted in its middle.
SMALL: dict[str, Any] = {
    "epochs": 4,
    "hidden": 8,
    "layers": 2,
    "structure": 0,
    "links_per_batch": 64,
    "eval_negatives": 20,
    "device": "cpu",
    "answers": "exact",
}
TIMINGS = {"seconds", "links_per_second", "evaluation_seconds", "train_seconds"}


def small_graph(directed: bool = True, seed: int = 0, named: bool = True, dated: bool = False) -> Graph:
    """60 nodes p00 … p59 in five communities, links of five per node, of 40 days; one seed, one graph."""
    raw = planted(60, 5, degree=5.0, noise=0.1, seed=seed, directed=directed, dim=6)
    names = pd.Index([f"p{node:02}" for node in range(60)]) if named else None
    times = np.random.default_rng(seed).integers(40, size=raw.links.shape[1]) if dated else None
    return build_graph(replace(raw, names=names, times=times))


def predictor(**settings: Any) -> LinkPredictor:
    return LinkPredictor(**({"preset": "fast"} | SMALL | settings))


def trained(graph: Graph | None = None, **settings: Any) -> LinkPredictor:
    """Returns a predictor trained in silence."""
    return predictor(**settings).fit(small_graph() if graph is None else graph, observer=Observer())


@dataclass
class Stop(Observer):
    """Presses Ctrl-C after an epoch, or after a batch of an epoch; keeps what it heard before."""

    epoch: int
    batch: int | None = None
    records: list[Record] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def started(self, epochs: int, done: int, metric: str) -> None:
        self.calls.append(f"started {done}/{epochs} {metric}")

    def batch_done(self, epoch: int, batch: int, batches: int, links: int, loss: float) -> None:
        if (epoch, batch) == (self.epoch, self.batch):
            raise KeyboardInterrupt

    def epoch_done(self, record: Mapping[str, Any]) -> None:
        self.records.append(dict(record))
        if self.batch is None and record["epoch"] == self.epoch:
            raise KeyboardInterrupt

    def finished(self) -> None:
        self.calls.append("finished")


def weights(model: LinkPredictor) -> dict[str, Tensor]:
    return {name: tensor.cpu().clone() for name, tensor in model.method.model.state_dict().items()}


def same_weights(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def timeless(record: Mapping[str, Any]) -> Record:
    """Returns a record without what a clock says, also in the objects it holds."""
    told = {name: value for name, value in record.items() if name not in TIMINGS}
    return {name: timeless(value) if isinstance(value, dict) else value for name, value in told.items()}


def history(model: LinkPredictor) -> list[Record]:
    return [timeless(record) for record in model.history]


def heed_ctrl_c() -> None:
    """For a process that is started: lets Ctrl-C through, also where a shell had the tests ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
