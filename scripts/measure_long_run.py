"""Trains for many epochs and watches what must not grow: memory, open files, the processor time of an epoch.

Growth is the slope through all epochs after the first tenth (Theil–Sen: the median slope of all pairs of epochs, which
a busy moment of the machine does not bend), times the number of those epochs. Exits with 1 if something grew.

    python scripts/measure_long_run.py --epochs 200 --plot docs/images/long-run.png
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import theilslopes

from headtail import LinkPredictor
from headtail.datasets.synthetic import planted
from headtail.graph.graph import build_graph
from headtail.memory import resident_bytes
from headtail.training.observer import Observer

# What may be added over all epochs that are looked at, as a share of the median.
TOLERANCE = {"memory": 0.03, "open files": 0.0, "processor seconds": 0.10}


@dataclass
class Watch(Observer):
    """Notes memory, open files and the processor time of every epoch, with validation, checkpoint and journal."""

    samples: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in TOLERANCE})
    last: float = field(default_factory=time.process_time)

    def epoch_done(self, record: Mapping[str, Any]) -> None:
        now = time.process_time()
        self.samples["memory"].append(resident_bytes() / 2**20)
        self.samples["open files"].append(len(os.listdir("/proc/self/fd")))
        self.samples["processor seconds"].append(now - self.last)
        self.last = now


@dataclass(frozen=True)
class Growth:
    """How much a quantity grew after warming up: `added` in its own unit, and as a share of its median."""

    median: float
    added: float
    share: float


def growth(values: Sequence[float]) -> Growth:
    settled = np.asarray(values[max(1, len(values) // 10) :])
    slope = float(theilslopes(settled, np.arange(len(settled)))[0])
    middle, added = float(np.median(settled)), slope * len(settled)
    return Growth(middle, added, added / middle)


def measure(epochs: int, nodes: int, preset: str) -> dict[str, list[float]]:
    """Trains with a run folder, as the command line does."""
    watch = Watch()
    graph = build_graph(planted(nodes, 10, degree=10.0, seed=0, directed=True, dim=16))
    with tempfile.TemporaryDirectory() as folder:
        model = LinkPredictor(preset, epochs=epochs, device="cpu")
        watch.last = time.process_time()
        model.fit(graph, Path(folder) / "run", observer=watch)
    return watch.samples


def plot(samples: Mapping[str, Sequence[float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(10, 2.8), dpi=120)
    for place, (name, unit) in zip(
        axes, (("memory", "MiB"), ("open files", ""), ("processor seconds", "")), strict=True
    ):
        place.plot(range(1, len(samples[name]) + 1), samples[name], linewidth=1)
        place.set_title(f"{name}{f', {unit}' if unit else ''}", loc="left", fontsize=10)
        place.set_xlabel("epoch")
        place.set_ylim(0, 1.3 * max(samples[name]))
        place.grid(alpha=0.25)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--plot", type=Path, help="write a picture there")
    options = parser.parse_args()
    samples = measure(options.epochs, options.nodes, options.preset)
    found = {name: growth(values) for name, values in samples.items()}
    if options.plot is not None:
        plot(samples, options.plot)
    print("| what | median | added after warming up | share | allowed |\n|---|---|---|---|---|")
    for name, one in found.items():
        print(f"| {name} | {one.median:.4g} | {one.added:+.3g} | {one.share:+.2%} | {TOLERANCE[name]:.0%} |")
    grown = [name for name, one in found.items() if one.share > TOLERANCE[name]]
    print(json.dumps({"epochs": options.epochs, "grown": grown}))
    return int(bool(grown))


if __name__ == "__main__":
    sys.exit(main())
