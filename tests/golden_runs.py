"""Trainings whose numbers a change of form must not change, and the run of version 0.1.0 that must still open.

`scripts/make_golden.py` writes down what they gave; tests/training/test_golden.py and tests/test_old_run.py compare.
"""

import hashlib
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headtail import LinkPredictor
from headtail.graph.graph import Graph
from headtail.training.observer import Observer
from tiny_runs import SMALL, small_graph

DATA = Path(__file__).parent / "data"
GOLDEN = DATA / "golden.json"
OLD_RUN, ANSWERS = DATA / "run-0.1.0", DATA / "run-0.1.0.json"

# What of a graph is chosen, the preset, and settings beside the small ones.
RUNS: dict[str, tuple[dict[str, bool], str, dict[str, Any]]] = {
    "strong, directed, dated": ({"directed": True, "dated": True}, "strong", {"structure": 4}),
    "strong, undirected": ({"directed": False}, "strong", {}),
    "fast, directed": ({"directed": True}, "fast", {}),
    "paper, undirected, dated": ({"directed": False, "dated": True}, "paper", {"layers": 3}),
    "symmetric, directed, gat": ({"directed": True}, "fast", {"method": "symmetric", "encoder": "gat"}),
    "smlp, undirected": ({"directed": False}, "strong", {"method": "smlp"}),
    "mf, directed": ({"directed": True}, "fast", {"method": "mf"}),
}
# Small steps: a bias before a norm has no gradient but rounding, of which Adam makes steps, so machines drift apart.
SETTINGS = SMALL | {"epochs": 3, "evaluate_every": 1, "learning_rate": 0.0003}
RECOMMENDED = ["p00", "p17", "p42"]
PREDICTED = [("p00", "p01"), ("p17", "p42"), ("p59", "p03")]


def machine() -> dict[str, object]:
    """What decides how sums are rounded. Training is by one thread wherever it is."""
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "kernels": torch.backends.cpu.get_cpu_capability(),
        "threads": 1,
    }


def _processor() -> str:
    """The processor's name, as Linux tells it, else as Python does."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Several threads sum in an order of their own."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def fitted(graph: Graph, preset: str, **settings: Any) -> LinkPredictor:
    with one_thread():
        return LinkPredictor(preset, **(SETTINGS | settings)).fit(graph, observer=Observer())


def figures(name: str) -> dict[str, Any]:
    """Trains one of the runs and returns its losses, its validation MRR and a hash of its weights."""
    graph, preset, settings = RUNS[name]
    model = fitted(small_graph(**graph), preset, **settings)
    digest = hashlib.sha256()
    for key, tensor in sorted(model.method.weights().items()):
        digest.update(f"{key} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return {
        "losses": [record["loss"] for record in model.history],
        "valid_mrr": [record["valid_mrr"] for record in model.history],
        "weights": digest.hexdigest(),
    }


def old_run() -> LinkPredictor:
    """Trains what is stored as the run of version 0.1.0."""
    return fitted(small_graph(directed=True, dated=True), "strong", structure=4, learning_rate=0.003)


def answers(model: LinkPredictor, **asked: Any) -> dict[str, Any]:
    """What a run is asked: the three best tails of some heads, and the scores and probabilities of some pairs."""
    with one_thread():
        links = model.recommend(RECOMMENDED, k=3, **asked)
        pairs = model.predict(PREDICTED, probability=True, **asked)
    return {"recommend": links.to_dict("list"), "predict": pairs.to_dict("list")}
