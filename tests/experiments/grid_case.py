"""What tests of experiments share: results made by hand, a tiny data file, and plans that run in a second."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from headtail.datasets.synthetic import planted
from headtail.experiments.data import DataSource, PerData
from headtail.experiments.grid import Plan
from headtail.experiments.results import RunResult
from headtail.experiments.variants import variant_named

COUNTS = {"gnn_node_encodings": 50, "blocked_node_encodings": 5, "mlp_node_encodings": 70, "pairs_scored": 200}
# Settings under which a run takes a tenth of a second.
TINY: dict[str, Any] = {
    "epochs": 2,
    "hidden": 8,
    "layers": 2,
    "links_per_batch": 64,
    "structure": 0,
    "device": "cpu",
}


def result(method: str = "aml", test: float = 0.5, seed: int = 0, data: str = "tiny", **more: Any) -> RunResult:
    """Returns the result of a run that never was."""
    facts: dict[str, Any] = {
        "key": "k",
        "metric": "mrr",
        "protocol": "clean",
        "test_graph": "train",
        "valid": test,
        "best_epoch": 2,
        "epochs": 2,
        "train_seconds": 3.0,
        "prepare_seconds": 0.5,
        "evaluation_seconds": 0.25,
        "links": 100,
        "per_epoch": COUNTS,
        "settings": {"epochs": 2},
        "machine": "a machine",
        "torch": "2.13.0",
        "date": "2026-01-02",
    }
    return RunResult(data=data, method=method, seed=seed, test=test, **(facts | more))


def write_tiny(
    path: Path, metric: str = "mrr", directed: bool = True, valid: int = 20, test: int = 30, negatives: int = 15
) -> Path:
    """Writes 60 nodes in five communities as a split file with negatives of its own."""
    raw = planted(60, 5, degree=5.0, noise=0.1, directed=directed, dim=6)
    random = np.random.default_rng(0)
    links = raw.links[:, random.permutation(raw.links.shape[1])]
    held_out = {"valid": links[:, :valid], "test": links[:, valid : valid + test]}
    taken = {frozenset(pair) for pair in links.T.tolist()}
    free = [(a, b) for a in range(60) for b in range(a + 1, 60) if frozenset((a, b)) not in taken]
    arrays: dict[str, Any] = {}
    for name, positives in held_out.items():
        if metric == "mrr":
            tails = [[b for b in range(60) if b != a and frozenset((a, b)) not in taken] for a in positives[0].tolist()]
            arrays[f"{name}_neg"] = np.array([random.permutation(own)[:negatives] for own in tails])
        else:
            arrays[f"{name}_neg"] = np.array([free[i] for i in random.permutation(len(free))[:negatives]]).T
    np.savez(
        path,
        num_nodes=60,
        directed=directed,
        metric=metric,
        x=raw.features,
        train=links[:, valid + test :],
        **held_out,
        **arrays,
    )
    return path


def tiny_source(folder: Path, name: str = "tiny", **facts: Any) -> DataSource:
    return DataSource(name, str(write_tiny(folder / f"{name}.npz", **facts)))


def plan_of(
    sources: list[DataSource],
    methods: list[str],
    repeats: int = 1,
    preset: str = "fast",
    per_data: PerData | None = None,
    **given: Any,
) -> Plan:
    variants = [variant_named(name) for name in methods]
    return Plan(sources, variants, repeats, preset, TINY | given, per_data or PerData({}, {}))


def quiet() -> Console:
    return Console(quiet=True)


def markdown_rows(text: str) -> list[list[str]]:
    """Returns the cells of every line of Markdown tables in a text, the rules below headings left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.replace("\\|", "¦").strip("|").split("|")] for line in lines]
    return [row for row in cells if not all(set(cell) <= set("-:") for cell in row)]


def check_markdown(text: str) -> None:
    """Every table has as many cells in each of its rows, and its rule stands below the heading."""
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if lines and lines[0].startswith("|"):
            widths = {line.replace("\\|", "¦").count("|") for line in lines}
            assert len(widths) == 1, block
            assert all(line.startswith("| ") and line.endswith(" |") for line in lines)
            assert set(lines[1]) <= set("|-: ")
