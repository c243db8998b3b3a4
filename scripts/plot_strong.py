"""Draws docs/images/strong.png: `strong` beside the other methods of `headtail compare`, graph by graph.

    python scripts/plot_strong.py docs/experiments/strong --out docs/images/strong.png

Every folder in there is the --out of one comparison.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from headtail.experiments.compare import Compared, compared
from headtail.experiments.grid import without_chance
from headtail.experiments.results import RunResult, read_results
from headtail.experiments.tables import Results
from headtail.experiments.variants import variant_named

GRAPHS = ("metamath", "cit-hepph", "ogbl-ddi", "debian", "acl-collab")
TRAINED = {"strong": ("#d62728", "strong"), "paper": ("#1f77b4", "AML"), "sage": ("#2ca02c", "symmetric SAGE")}


def draw_graph(axes: plt.Axes, results: list[RunResult], height: float) -> str:
    """Draws the methods of one graph as points on a line, and returns what it is called."""
    lines = compared(results)
    axes.axhline(height, color="0.85", linewidth=1, zorder=0)
    untrained = [line for line in lines if without_chance(variant_named(line.method))]
    for line in untrained[1:]:
        axes.plot(line.test, height, "|", color="0.6", markersize=9)
    best: Compared = untrained[0]
    axes.plot(best.test, height, "D", color="0.35", markersize=6)
    axes.annotate(
        best.method.upper(), (best.test, height), (0, -14), textcoords="offset points", ha="center", fontsize=7
    )
    for line in lines:
        if line.method in TRAINED:
            colour, _ = TRAINED[line.method]
            size = 10 if line.method == "strong" else 7
            axes.errorbar(line.test, height, xerr=line.std, fmt="o", color=colour, markersize=size, capsize=3)
    return f"{results[0].data}\n{Results(results).metric(results[0].data).split(',')[0]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/images/strong.png"))
    given = parser.parse_args()
    figure, axes = plt.subplots(figsize=(8, 4.2), dpi=130)
    heights = [float(len(GRAPHS) - place) for place in range(len(GRAPHS))]
    labels = [
        draw_graph(axes, read_results(given.folder / name / "results.jsonl", print), height)
        for name, height in zip(GRAPHS, heights, strict=True)
    ]
    for colour, label in TRAINED.values():
        axes.plot([], [], "o", color=colour, label=label)
    axes.plot([], [], "D", color="0.35", markersize=6, label="best heuristic")
    axes.plot([], [], "|", color="0.6", markersize=9, linestyle="none", label="other heuristics")
    axes.set_yticks(heights, labels, fontsize=8)
    axes.set_ylim(0.4, len(GRAPHS) + 0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel("test accuracy (%), mean of 3 seeds, bars ± 1 standard deviation")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=5, fontsize=8, frameon=False)
    figure.tight_layout()
    figure.savefig(given.out)


if __name__ == "__main__":
    main()
