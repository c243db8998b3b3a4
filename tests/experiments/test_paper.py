"""The paper's tables, made on tiny graphs: statistics counted by hand, curves as pictures, nothing done twice."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest
from grid_case import TINY, check_markdown, markdown_rows, quiet, result, tiny_source, write_tiny

from headtail.errors import ConfigError
from headtail.experiments import paper
from headtail.experiments.data import DataSource, PerData
from headtail.experiments.paper import SPECS, TABLES, PaperRun, check_table, make_table
from headtail.experiments.plots import Curve
from headtail.experiments.results import append_result, read_results


def paper_run(folder: Path, *sources: DataSource, **changes: Any) -> PaperRun:
    run = PaperRun(
        sources, 1, "fast", TINY | {"epochs": 1}, PerData({}, {}), folder / "out", quiet(), lambda text: None
    )
    return replace(run, **changes)


def test_tables_are_those_of_the_paper() -> None:
    assert TABLES == ("statistics", "complexity", "main", "others", "smlp", "reversed", "ablation", "curves")
    for name in (*TABLES, "all"):
        check_table(name)
    with pytest.raises(ConfigError, match=r"unknown table 'ablations'; did you mean 'ablation'\? Valid: ablation, "):
        check_table("ablations")


# ---- statistics


def statistics(run: PaperRun) -> list[dict[str, str]]:
    text = make_table("statistics", run)
    check_markdown(text)
    assert (run.out / "statistics.md").read_text() == text + "\n"
    head, *rows = markdown_rows(text)
    return [dict(zip(head, row, strict=True)) for row in rows]


@pytest.mark.parametrize("valid", [20, 2, 1])
def test_statistics_of_ranked_tails(tmp_path: Path, valid: int) -> None:
    """Each positive has 15 negatives of its own. Two positives look like pairs [2, M], and are none."""
    (row,) = statistics(paper_run(tmp_path, tiny_source(tmp_path, valid=valid, test=30, negatives=15)))
    assert row == {
        "data": "tiny",
        "kind": "directed",
        "nodes": "60",
        "edges": "300",
        "features/node": "6",
        "training links": f"{270 - valid}",
        "validation links": f"{valid * 16}",
        "test links": f"{30 * 16}",
        "metric": "mrr",
    }


@pytest.mark.parametrize("valid", [20, 2])
def test_statistics_of_shared_negatives(tmp_path: Path, valid: int) -> None:
    source = tiny_source(tmp_path, metric="hits@20", directed=False, valid=valid, test=25, negatives=100)
    (row,) = statistics(paper_run(tmp_path, source))
    assert (row["kind"], row["edges"], row["training links"]) == ("undirected", "150", f"{125 - valid}")
    assert (row["validation links"], row["test links"], row["metric"]) == (f"{valid + 100}", "125", "hits@20")


def test_statistics_have_a_row_per_data_set_and_train_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "run_once", None)
    monkeypatch.setattr(paper, "run_grid", None)
    rows = statistics(paper_run(tmp_path, tiny_source(tmp_path, "one"), DataSource("planted", "planted")))
    assert [row["data"] for row in rows] == ["one", "planted"]
    assert rows[1]["nodes"] == "1,000"


# ---- tables of runs


@pytest.mark.parametrize("name", SPECS)
def test_a_table_asks_for_its_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the grid is replaced: every method of the table is asked for, and has a row."""
    asked: dict[str, Any] = {}

    def grid(plan: Any, path: Path, console: Any, jobs: int, say: Any, train: bool) -> list:
        asked.update(plan=plan, path=path, jobs=jobs, train=train)
        return [result(variant.name, 0.5, seed) for variant in plan.variants for seed in range(plan.repeats)]

    monkeypatch.setattr(paper, "run_grid", grid)
    run = paper_run(tmp_path, DataSource("tiny", ""), repeats=3, jobs=2)
    text = make_table(name, run)
    check_markdown(text)
    assert (run.out / f"{name}.md").read_text(encoding="utf-8") == text + "\n"
    assert (asked["path"], asked["jobs"]) == (run.out / "results.jsonl", 2)
    assert (asked["plan"].repeats, asked["plan"].preset, asked["plan"].given) == (3, "fast", run.given)
    labels = [row[0] for row in markdown_rows(text)]
    assert all(variant.label in labels for variant in asked["plan"].variants)
    assert text.startswith(f"## {SPECS[name].title}\n\n")
    assert "over 3 seeds" in text


@pytest.mark.parametrize("name", ["main", "ablation", "curves", "complexity"])
@pytest.mark.parametrize("given", [{"encoder": "pyg:SAGEConv"}, {"encoder": "gat"}])
def test_settings_that_make_a_label_wrong_are_refused(tmp_path: Path, name: str, given: dict[str, Any]) -> None:
    """`main --encoder gat` would print the GAT's accuracy in the row of SAGE."""
    run = paper_run(tmp_path, tiny_source(tmp_path), given=given)
    with pytest.raises(ConfigError, match=rf"encoder '{given['encoder']}' contradicts .*whose encoder is 'sage'"):
        make_table(name, run)
    assert not run.out.exists()


@pytest.mark.slow
def test_a_table_of_real_runs_is_made_once(tmp_path: Path) -> None:
    said: list[str] = []
    run = paper_run(tmp_path, tiny_source(tmp_path), repeats=2, say=said.append)
    text = make_table("smlp", run)
    found = read_results(run.out / "results.jsonl", said.append)
    assert [(one.method, one.seed) for one in found] == [
        (name, seed) for seed in (0, 1) for name in ("smlp", "aml", "aml-gat")
    ]
    assert said == []
    assert make_table("smlp", run) == text
    assert said == [f"6 of 6 runs are in {run.out / 'results.jsonl'} already."]
    # Another table shares what it can.
    make_table("reversed", run)
    assert said[1] == f"4 of 8 runs are in {run.out / 'results.jsonl'} already."


# ---- curves


@pytest.mark.slow
def test_curves_are_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Curve] = []
    plot = paper.accuracy_time_plot
    monkeypatch.setattr(paper, "accuracy_time_plot", lambda curves, *rest: drawn.extend(curves) or plot(curves, *rest))
    run = paper_run(tmp_path, tiny_source(tmp_path), repeats=2)
    run = replace(run, given={**run.given, "epochs": 3})
    text = make_table("curves", run)
    check_markdown(text)
    for encoder in ("sage", "gat"):
        assert f"![curves-tiny-{encoder}](curves-tiny-{encoder}.png)" in text
        picture = run.out / f"curves-tiny-{encoder}"
        assert matplotlib.image.imread(picture.with_suffix(".png")).std() > 0.01
        assert ElementTree.parse(picture.with_suffix(".svg")).getroot().tag.endswith("}svg")
    runs = [one.curve for one in read_results(run.out / "results.jsonl", print) if one.method == "sage"]
    assert len(runs) == 2
    sage = drawn[0]
    assert sage.name == "SAGE"
    for epoch in range(3):
        assert sage.seconds[epoch] == pytest.approx((runs[0][epoch][0] + runs[1][epoch][0]) / 2)
        assert sage.values[epoch] == pytest.approx(50 * (runs[0][epoch][2] + runs[1][epoch][2]))


def test_times_of_a_shared_machine_are_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    curve = [[1.0, 0.1, 0.2], [2.0, 0.3, 0.4]]
    methods = ("sage", "aml", "gat", "aml-gat")
    monkeypatch.setattr(paper, "run_grid", lambda *rest: [result(name, curve=curve, jobs=2) for name in methods])
    run = paper_run(tmp_path, DataSource("tiny", ""))
    assert "No plot: runs that shared the machine" in make_table("curves", run)
    assert not list(run.out.glob("*.png"))


@pytest.mark.slow
def test_everything_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tables on two tiny graphs; the second time nothing is left to do."""
    sources = [tiny_source(tmp_path, "one"), tiny_source(tmp_path, "two", metric="hits@20", directed=False)]
    run = paper_run(tmp_path, *sources)
    first = {name: make_table(name, run) for name in TABLES}
    for text in first.values():
        check_markdown(text)
    monkeypatch.setattr(paper, "run_once", None)
    monkeypatch.setattr("headtail.experiments.grid.run_once", None)
    assert {name: make_table(name, run) for name in TABLES} == first


def test_broken_results_do_not_stop_a_table(tmp_path: Path) -> None:
    said: list[str] = []
    run = paper_run(tmp_path, DataSource("tiny", str(write_tiny(tmp_path / "tiny.npz"))), say=said.append)
    append_result(run.out / "results.jsonl", result("aml", data="other"))
    (run.out / "results.jsonl").open("a").write('{"data": "tiny", "meth')
    make_table("smlp", run)
    assert "line 2 is no complete result" in said[0]
    assert len(read_results(run.out / "results.jsonl", said.append)) == 4
    assert (run.out / "results.jsonl.broken").read_text() == '{"data": "tiny", "meth\n'
