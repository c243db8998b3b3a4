"""A comparison has a line per method, the best first, and a picture."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from grid_case import COUNTS, check_markdown, markdown_rows, result

from headtail.experiments import compare
from headtail.experiments.compare import (
    COLUMNS,
    compared,
    comparison_markdown,
    comparison_plot,
    heading,
    mean_curve,
    rows,
)
from headtail.experiments.plots import Curve

CURVES = [[[1.0, 0.1, 0.2], [3.0, 0.3, 0.4]], [[2.0, 0.5, 0.6], [5.0, 0.7, 0.1]]]
RESULTS = [
    result("aml", 0.5, 0, curve=CURVES[0], valid=0.6),
    result("ra", 0.7, 0, epochs=0, train_seconds=0.0, links=0, per_epoch=dict.fromkeys(COUNTS, 0), valid=0.8),
    result("aml", 0.6, 1, curve=CURVES[1], valid=0.7, train_seconds=5.0),
    result("seal", 0.2, 0, valid=-1.0),
]


def test_a_line_per_method_the_best_first() -> None:
    ra, aml, seal = compared(RESULTS)
    assert (ra.method, aml.method, seal.method) == ("ra", "aml", "seal")
    assert (aml.test, aml.valid, aml.runs) == (pytest.approx(55), pytest.approx(65), 2)
    assert aml.std == pytest.approx(50**0.5)
    assert (aml.train_seconds, ra.train_seconds) == (4.0, 0.0)
    assert (aml.gnn_node_encodings, ra.gnn_node_encodings) == (50, 0)
    assert seal.valid is None


def test_a_line_as_text() -> None:
    ra, aml, seal = rows(compared(RESULTS))
    assert aml == ["aml", "55.00 ± 7.07", "65.00", "4.0", "0.25", "2", "50"]
    assert ra == ["ra", "70.00", "80.00", "0", "0.25", "0", "0"]
    assert seal[:3] == ["seal", "20.00", "–"]  # validation links were not held out


def test_the_table_is_markdown() -> None:
    text = comparison_markdown(compared(RESULTS))
    check_markdown(text)
    assert [row[0] for row in markdown_rows(text)] == ["method", "ra", "aml", "seal"]
    assert markdown_rows(text)[0] == list(COLUMNS)


def test_lists_have_columns_of_their_own() -> None:
    figures = {"recall@10": 0.25, "recall@50": 0.5, "mrr@50": 0.125, "heads": 9, "links": 12, "seconds": 1.0}
    results = [result("aml", 0.5, 0, heads_sampled=9, all_nodes=figures)]
    results += [result("aml", 0.5, 1, heads_sampled=9, all_nodes=figures | {"recall@10": 0.5, "links": 14})]
    (line,) = lines = compared(results, with_lists=True)
    assert line.all_nodes == figures | {"recall@10": 0.375, "links": 13}
    assert markdown_rows(comparison_markdown(lines))[0][3:6] == ["recall@10", "recall@50", "mrr@50"]
    assert rows(lines)[0][3:6] == ["37.50", "50.00", "12.50"]
    of_lists = "recall@10, recall@50, mrr@50 (%): test links of 9 heads among all nodes"
    assert heading("MRR (%)", lines) == f"MRR (%)\n{of_lists}"
    dear = compared([*results, result("seal", 0.2, 0, heads_sampled=None)], with_lists=True)
    assert rows(dear)[1][3:6] == ["–", "–", "–"]
    few = result("ra", 0.2, 0, heads_sampled=9, all_nodes=figures | {"heads": 7})
    assert "test links of 7 to 9 heads among" in heading("MRR (%)", compared([*results, few], with_lists=True))
    without = compared(results)
    assert markdown_rows(comparison_markdown(without))[0] == list(COLUMNS)
    assert heading("MRR (%)", without) == "MRR (%)"


def test_lines_are_plain_data() -> None:
    assert all(isinstance(value, str | int | float | None) for value in asdict(compared(RESULTS)[2]).values())


def test_a_curve_is_the_mean_over_seeds() -> None:
    curve = mean_curve([RESULTS[0], RESULTS[2]])
    assert curve is not None
    assert curve.name == "AML (S)"
    assert list(curve.seconds) == pytest.approx([1.5, 4.0])
    assert list(curve.values) == pytest.approx([40.0, 25.0])
    assert mean_curve([RESULTS[1]]) is None
    assert mean_curve([]) is None


def test_the_plot_has_curves_and_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, Any] = {}

    def keep(curves: list[Curve], metric: str, title: str, path: Path) -> None:
        drawn.update(curves=curves, metric=metric, title=title, path=path)

    monkeypatch.setattr(compare, "accuracy_time_plot", keep)
    comparison_plot(RESULTS, "A title", "MRR (%), clean", tmp_path / "plot.png")
    aml, ra, seal = drawn["curves"]
    assert (aml.name, list(aml.seconds)) == ("AML (S)", pytest.approx([1.5, 4.0]))
    assert (ra.name, list(ra.seconds), list(ra.values)) == ("RA", [0.25], [70.0])
    assert (seal.name, list(seal.seconds), list(seal.values)) == ("SEAL", [3.25], [20.0])
    assert (drawn["metric"], drawn["title"]) == ("test MRR (%), clean", "A title")
