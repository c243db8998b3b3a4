"""A comparison of methods on one graph: every method under the same split, evaluator and settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headtail.experiments.plots import Curve, accuracy_time_plot
from headtail.experiments.results import RunResult, summarise
from headtail.experiments.tables import markdown_table, seconds_text
from headtail.experiments.variants import variant_named


@dataclass(frozen=True)
class Compared:
    """One method's line in a comparison; accuracy in percent."""

    method: str
    test: float
    std: float
    valid: float
    runs: int
    train_seconds: float | None
    evaluation_seconds: float
    epochs: int
    gnn_node_encodings: int


def compared(results: Sequence[RunResult]) -> list[Compared]:
    """Returns a line per method, the best on the test links first."""
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
            )
        )
    return sorted(lines, key=lambda line: -line.test)


COLUMNS = ("method", "test", "validation", "training s", "test s", "epochs", "GNN encodings/epoch")


def cells(line: Compared) -> list[str]:
    """Returns the line as text for a table."""
    spread = f" ± {line.std:.2f}" if line.runs > 1 else ""
    return [
        line.method,
        f"{line.test:.2f}{spread}",
        f"{line.valid:.2f}",
        seconds_text(line.train_seconds),
        seconds_text(line.evaluation_seconds),
        str(line.epochs),
        f"{line.gnn_node_encodings:,}",
    ]


def comparison_markdown(lines: Sequence[Compared]) -> str:
    return markdown_table(COLUMNS, [cells(line) for line in lines])


def comparison_plot(results: Sequence[RunResult], title: str, metric: str, path: Path) -> None:
    """Draws test accuracy over seconds; methods without training are level lines."""
    curves = []
    for method in dict.fromkeys(result.method for result in results):
        one = next(result for result in results if result.method == method)
        label = variant_named(method).label
        if one.curve:
            curves.append(Curve(label, [p[0] for p in one.curve], [100 * p[2] for p in one.curve]))
        else:
            seconds = one.train_seconds + one.evaluation_seconds
            curves.append(Curve(label, [seconds], [100 * one.test]))
    accuracy_time_plot(curves, f"test {metric} (%)", title, path)
