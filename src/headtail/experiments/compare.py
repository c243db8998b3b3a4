"""A comparison of methods on one graph: every method under the same split, evaluator and settings."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headtail.experiments.plots import Curve, accuracy_time_plot
from headtail.experiments.results import RunResult, summarise
from headtail.experiments.tables import NOTHING, markdown_table, seconds_text
from headtail.experiments.variants import variant_named


@dataclass(frozen=True)
class Compared:
    """One method's line in a comparison; accuracy in percent, None where it was not measured.

    What lists are worth, `all_nodes`, is in fractions, as everywhere: the mean over seeds.
    """

    method: str
    test: float
    std: float
    valid: float | None
    runs: int
    train_seconds: float | None
    evaluation_seconds: float
    epochs: int
    gnn_node_encodings: int
    all_nodes: dict[str, float] | None = None


def compared(results: Sequence[RunResult], with_lists: bool = False) -> list[Compared]:
    """Returns a line per method, the best on the test links first.

    Where `with_lists`, it says what lists are worth.
    """
    lines = []
    for method in dict.fromkeys(result.method for result in results):
        runs = [result for result in results if result.method == method]
        summary = summarise(runs)
        assert summary is not None
        lines.append(
            Compared(
                method=method,
                test=summary.mean,
                std=summary.std,
                valid=summary.valid,
                runs=summary.runs,
                train_seconds=summary.seconds if runs[0].epochs else 0.0,
                evaluation_seconds=runs[0].evaluation_seconds,
                epochs=runs[0].epochs,
                gnn_node_encodings=runs[0].per_epoch["gnn_node_encodings"],
                all_nodes=_mean_lists(runs) if with_lists else None,
            )
        )
    return sorted(lines, key=lambda line: -line.test)


def _mean_lists(runs: Sequence[RunResult]) -> dict[str, float] | None:
    """Returns the mean of every figure of lists over seeds; None where lists were too dear to ask for."""
    figures = [run.all_nodes for run in runs if run.all_nodes is not None]
    return (
        None
        if len(figures) < len(runs)
        else {name: statistics.mean(each[name] for each in figures) for name in figures[0]}
    )


COLUMNS = ("method", "test", "valid", "training s", "test s", "epochs", "GNN encodings")
# Further columns where lists were judged; the heading says of what.
OF_LISTS = ("recall@10", "recall@50", "mrr@50")


def columns(lines: Sequence[Compared]) -> list[str]:
    """Returns the columns of a table of these lines."""
    of_lists = OF_LISTS if _with_lists(lines) else ()
    return [*COLUMNS[:3], *of_lists, *COLUMNS[3:]]


def heading(judged_by: str, lines: Sequence[Compared]) -> str:
    """Says what the columns tell: the metric and, where lists were judged, of how many heads."""
    figures = _with_lists(lines)
    if not figures:
        return judged_by
    asked = sorted(round(each["heads"]) for each in figures)
    heads = f"{asked[0]:,} heads" if asked[0] == asked[-1] else f"{asked[0]:,} to {asked[-1]:,} heads"
    return f"{judged_by}\n{', '.join(OF_LISTS)} (%): test links of {heads} among all nodes"


def _with_lists(lines: Sequence[Compared]) -> list[dict[str, float]]:
    """Returns what lists are worth, of the methods of which that was measured."""
    return [line.all_nodes for line in lines if line.all_nodes]


def _cells(line: Compared, with_lists: bool) -> list[str]:
    """Returns the line as text for a table, with or without cells for what lists are worth."""
    spread = f" ± {line.std:.2f}" if line.runs > 1 else ""
    lists = []
    if with_lists:
        lists = [f"{100 * line.all_nodes[name]:.2f}" if line.all_nodes else NOTHING for name in OF_LISTS]
    return [
        line.method,
        f"{line.test:.2f}{spread}",
        NOTHING if line.valid is None else f"{line.valid:.2f}",
        *lists,
        seconds_text(line.train_seconds),
        seconds_text(line.evaluation_seconds),
        str(line.epochs),
        f"{line.gnn_node_encodings:,}",
    ]


def rows(lines: Sequence[Compared]) -> list[list[str]]:
    """Returns all lines as text for a table."""
    return [_cells(line, bool(_with_lists(lines))) for line in lines]


def comparison_markdown(lines: Sequence[Compared]) -> str:
    return markdown_table(columns(lines), rows(lines))


def mean_curve(runs: Sequence[RunResult]) -> Curve | None:
    """Returns the mean over seeds of seconds and test accuracy, epoch by epoch; None where no run has a curve."""
    curves = [run.curve for run in runs if run.curve]
    if not curves:
        return None
    seconds, _, values = np.mean(curves, axis=0).T  # [epochs, 3]: runs of one experiment validate alike
    return Curve(variant_named(runs[0].method).label, seconds.tolist(), (100 * values).tolist())


def comparison_plot(results: Sequence[RunResult], title: str, metric: str, path: Path) -> None:
    """Draws test accuracy over seconds; methods without a curve are level lines."""
    curves = []
    for method in dict.fromkeys(result.method for result in results):
        runs = [result for result in results if result.method == method]
        seconds = statistics.mean(run.train_seconds + run.evaluation_seconds for run in runs)
        level = Curve(variant_named(method).label, [seconds], [100 * statistics.mean(run.test for run in runs)])
        curves.append(mean_curve(runs) or level)
    accuracy_time_plot(curves, f"test {metric}", title, path)
