"""The paper's formulas give hand-computed values, and the counts beside them are those of a real epoch."""

import re
from pathlib import Path
from typing import Any

import pytest
from grid_case import COUNTS, TINY, check_markdown, markdown_rows, quiet, result, tiny_source

from headtail.experiments.complexity import FORMULAS, Sizes, complexity_table, ratio_text, sizes_of
from headtail.experiments.data import DataSource, PerData
from headtail.experiments.one_run import run_config
from headtail.experiments.paper import COUNTS_FILE, PaperRun, make_table
from headtail.experiments.results import read_results
from headtail.experiments.variants import variant_named
from headtail.graph.view import GraphView
from headtail.predictor import LinkPredictor
from headtail.training.counters import COUNTERS
from headtail.training.observer import Observer
from random_graphs import as_links

# N, |E|, s, L, k, r, r of the local methods
SIZES = Sizes(nodes=7, links=20, degree=3.0, layers=2, hops=1, hidden=10, local_hidden=5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seal", 2 * 2 * 3 * 25 * 20),  # 2·L·s^k·r²·|E|
        ("degnn-rws", 6000),
        ("sage", 2 * 9 * 100 * 20),  # 2·s^L·r²·|E|
        ("sage-rws", 9 * 100 * (20 + 7)),  # s^L·r²·(|E| + N)
        ("aml-edges", (9 * 100 + 2 * 100) * 20),  # (s^L·r² + L·r²)·|E|
        ("aml", 9 * 100 * 7 + 2 * 100 * 20),  # s^L·r²·N + L·r²·|E|
    ],
)
def test_formulas_are_those_of_table_1(name: str, value: float) -> None:
    text, evaluate = FORMULAS[name]
    assert evaluate(SIZES) == value
    # The words say what the function does.
    names = {"L": 2, "s": 3, "k": 1, "r": 5 if name.startswith(("seal", "degnn")) else 10, "N": 7, "E": 20}
    python = text.replace("·", "*").replace("^", "**").replace("²", "**2").replace("|E|", "E")
    assert eval(re.sub(r"\s", "", python), {}, names) == value


@pytest.mark.parametrize(("directed", "links", "degree"), [(True, 4, 6 / 5), (False, 6, 6 / 5)])
def test_sizes_are_measured(directed: bool, links: int, degree: float) -> None:
    """0→1, 1→0, 1→2, 3→2: three pairs of neighbours among five nodes; undirected links count twice."""
    pairs = [(0, 1), (1, 0), (1, 2), (3, 2)] if directed else [(0, 1), (1, 2), (2, 3)]
    view = GraphView(5, directed, as_links(pairs))
    aml = run_config(variant_named("aml"), "paper", {}, {}, 0)
    seal = run_config(variant_named("seal"), "paper", {}, {"hops": 2}, 0)
    assert sizes_of(view, aml, seal) == Sizes(5, links, degree, layers=3, hops=2, hidden=256, local_hidden=32)


def test_counts_of_a_part_are_scaled_to_all_links() -> None:
    runs = [
        result("aml", epochs=1, links=20),
        result("seal", epochs=1, links=5, per_epoch=COUNTS | {"gnn_node_encodings": 101}),
    ]
    text = complexity_table(SIZES, runs)
    check_markdown(text)
    assert "N = 7, |E| = 20 (directed), s = 3.0, L = 2, r = 10 (local methods 5), k = 1." in text
    rows = {row[0]: row[1:] for row in markdown_rows(text)}
    assert list(rows) == ["method", *(variant_named(name).label for name in FORMULAS)]
    assert rows["AML (S)"] == ["s^L·r²·N + L·r²·¦E¦", "1.03e+04", "1", "50", "5", "70", "1"]
    assert rows["SEAL"][1:] == ["6.00e+03", "0.583", "404 (of 5 links, scaled)", "20", "280", "8.08"]
    assert rows["SAGE"][2:] == ["3.5", "–", "–", "–", "–"]


def test_ratios() -> None:
    assert [ratio_text(ratio) for ratio in (0.0123, 1.0, 9.876, 12.34, 12345.6)] == [
        "0.0123",
        "1",
        "9.88",
        "12.3",
        "12,345.6",
    ]


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[PaperRun, str, list[str]]:
    folder = tmp_path_factory.mktemp("complexity")
    said: list[str] = []
    given: dict[str, Any] = TINY | {"epochs": 5, "hops": 1}
    per_data = PerData({}, {"tiny": {"seal": {"links_per_epoch": 40}, "seal-rws": {"links_per_epoch": 40}}})
    run = PaperRun([tiny_source(folder)], 3, "fast", given, per_data, folder / "out", quiet(), said.append)
    return run, make_table("complexity", run), said


@pytest.mark.slow
def test_counted_encodings_are_those_of_a_real_epoch(counted: tuple[PaperRun, str, list[str]]) -> None:
    run, text, _ = counted
    check_markdown(text)
    rows = {row[0]: row for row in markdown_rows(text)}
    done = {found.method: found for found in read_results(run.out / COUNTS_FILE, print)}
    assert list(done) == list(FORMULAS)
    source: DataSource = run.sources[0]
    for name, changes in (
        ("aml", {}),
        ("sage", {"method": "symmetric", "batches": "edges"}),
        ("aml-edges", {"batches": "edges"}),
    ):
        settings = TINY | {"epochs": 1} | changes
        model = LinkPredictor(preset="fast", **settings).fit(source.load(), observer=Observer())
        (record,) = model.history
        assert done[name].per_epoch == {counter: record[counter] for counter in COUNTERS}
        cells = rows[variant_named(name).label][4:7]
        assert cells == [f"{record[counter]:,}" for counter in COUNTERS[:3]]


def test_every_count_is_of_one_unjudged_epoch(counted: tuple[PaperRun, str, list[str]]) -> None:
    run, text, _ = counted
    for found in read_results(run.out / COUNTS_FILE, print):
        assert (found.epochs, found.test, found.valid, found.seed) == (1, -1, -1, 0)
        assert found.links == (40 if found.method.startswith("seal") else 250)
    assert "(of 40 links, scaled)" in text
    assert (run.out / "complexity.md").read_text() == text + "\n"


def test_counts_are_not_made_twice(
    counted: tuple[PaperRun, str, list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run, text, said = counted

    def refuse(*arguments: object, **rest: object) -> None:
        raise AssertionError("a run was made")

    monkeypatch.setattr("headtail.experiments.paper.run_once", refuse)
    assert make_table("complexity", run) == text
    assert said == []
