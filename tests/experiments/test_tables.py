"""Tables have the paper's shape, gaps with its signs, and its figures beside ours."""

import re
from pathlib import Path

import pytest
from grid_case import check_markdown, markdown_rows, result

from headtail.experiments.paper import SPECS, provenance
from headtail.experiments.published import DATA, Published, published
from headtail.experiments.tables import (
    NOTHING,
    Part,
    Results,
    TableSpec,
    accuracy_table,
    cost_table,
    markdown_table,
    seconds_text,
)
from headtail.experiments.variants import VARIANTS, variant_named

PAPER = Path(__file__).resolve().parents[3] / "shared" / "paper" / "asymmetric-learning.tex"


def two(method: str, low: float, high: float, data: str = "tiny", **more: object) -> list:
    """Two seeds of a method, accuracy in percent."""
    return [result(method, value / 100, seed, data, **more) for seed, value in enumerate((low, high))]


def table(name: str, results: list, *data: str) -> list[list[str]]:
    text = accuracy_table(SPECS[name], data or ("tiny",), Results(results))
    check_markdown(text)
    return markdown_rows(text)


def test_mean_deviation_gap_and_time() -> None:
    results = [*two("sage", 50, 52, train_seconds=12.34), *two("aml", 53, 57, train_seconds=4.0)]
    head, sage, aml, *_ = table("main", results)
    assert head == ["method", "tiny: MRR (%), clean", "gap", "time (s)"]
    assert sage == ["SAGE", "51.00 ± 1.41", NOTHING, "12.3"]  # sample deviation of 50, 52 is √2
    assert aml == ["AML (S)", "**55.00 ± 2.83**", "+4.00", "4.0"]


@pytest.mark.parametrize(
    ("name", "results", "row", "gap"),
    [
        ("main", [*two("sage", 50, 50), *two("aml", 49, 49)], "AML (S)", "-1.00"),  # AML − baseline
        ("main", [*two("gat", 50, 50), *two("aml-gat", 51, 51)], "AML (G)", "+1.00"),
        ("ablation", [*two("aml-no-kt", 45, 45), *two("aml", 49, 49)], "AML (S, w/o KT)", "-4.00"),  # variant − AML
        ("ablation", [*two("aml-no-pe-gat", 60, 60), *two("aml-gat", 49, 49)], "AML (G, w/o PE)", "+11.00"),
        ("smlp", [*two("smlp", 40, 40), *two("aml-gat", 49, 49)], "AML (G)", "+9.00"),  # AML − SMLP
    ],
)
def test_gaps_have_the_papers_signs(name: str, results: list, row: str, gap: str) -> None:
    (found,) = [cells for cells in table(name, results) if cells[0] == row]
    assert found[2] == gap
    base = {"main": "SAGE", "ablation": "AML (S)", "smlp": "SMLP"}[name]
    assert all(cells[2] == NOTHING for cells in table(name, results) if cells[0] == base)


def test_missing_runs_are_shown() -> None:
    rows = table("ablation", two("aml", 50, 50))
    assert len(rows) == 12
    for cells in rows:
        if cells[0].startswith("AML ("):
            assert cells[1:] == (["**50.00 ± 0.00**", NOTHING] if cells[0] == "AML (S)" else [NOTHING, NOTHING])
    rows = table("main", [], "nothing-here")
    assert rows[0][1] == "nothing-here: no runs"
    assert {cell for row in rows if row[0] != "method" for cell in row[1:]} == {NOTHING}


def test_the_best_of_each_block_is_bold() -> None:
    results = [
        *two("cn", 30, 30),
        *two("aa", 40, 40),
        *two("seal", 20, 20),
        *two("aml", 10, 10),
        *two("aml-gat", 10, 10),
    ]
    bold = [cells[0] for cells in table("others", results) if cells[1].startswith("**")]
    assert bold == ["AA", "SEAL", "AML (S)", "AML (G)"]  # equals are both the best


def test_one_seed_has_no_deviation() -> None:
    _, sage, *_ = table("main", [result("sage", 0.5), result("aml", 0.25)])
    assert sage[1] == "**50.00**"


def test_the_papers_figures_stand_beside_ours() -> None:
    results = [*two("sage", 50, 52, "ogbl-collab", metric="hits@50", test_graph="train+valid"), *two("aml", 1, 2)]
    head, sage, aml, *_ = table("main", results, "ogbl-collab", "tiny")
    assert head[1:6] == [
        "ogbl-collab: Hits@50 against pairs (%), clean + valid. links at test",
        "gap",
        "time (s)",
        "paper",
        "paper's time (s)",
    ]
    assert head[6:] == ["tiny: MRR (%), clean", "gap", "time (s)"]
    assert sage[4:6] == ["54.57 ± 0.82", "7.9e+03"]
    assert aml[1:6] == [NOTHING, NOTHING, NOTHING, "57.26 ± 1.25", "4.4e+03"]
    others = table("others", results, "ogbl-ppa")
    (row,) = [cells for cells in others if cells[0] == "CN"]
    assert row[-2:] == ["27.60 ± 0.00", NOTHING]
    (row,) = [cells for cells in others if cells[0] == "RA"]
    assert row[-2:] == [NOTHING, NOTHING]


def test_a_heading_says_among_how_many_where_all_results_do() -> None:
    mrr, pool = two("sage", 1, 2, negatives=300), two("sage", 1, 2, "pool", metric="hits@50", negatives=100_000)
    found = Results([*mrr, *two("aml", 1, 2, "old"), *two("aml", 1, 2, "old", negatives=300), *pool])
    assert found.metric("tiny") == "MRR among 300 each (%), clean"
    assert found.metric("old") == "MRR (%), clean"
    assert found.metric("pool") == "Hits@50 against 100,000 pairs (%), clean"


def test_protocols_are_never_mixed_silently() -> None:
    results = [*two("sage", 50, 50), *two("aml", 60, 60, protocol="ogb"), *two("aml-gat", 1, 1, metric="hits@20")]
    head, sage, aml, *_ = table("main", results)
    assert head[1] == "tiny: MRR (%), clean / MRR (%), ogb / Hits@20 against pairs (%), clean"
    assert sage[1] == "50.00 ± 0.00 (MRR (%), clean)"
    assert aml[1] == "60.00 ± 0.00 (MRR (%), ogb)"  # not the best, since nothing compares
    assert aml[2] == NOTHING
    assert not any(cell.startswith("**") for row in table("main", results) for cell in row if "AML" not in row[0])


def test_results_of_other_data_do_not_mix() -> None:
    results = [*two("sage", 50, 50), *two("sage", 70, 70, "other"), *two("aml", 60, 60)]
    _, sage, aml, *_ = table("main", results, "other", "tiny")
    assert (sage[1], sage[4]) == ("**70.00 ± 0.00**", "50.00 ± 0.00")
    assert (aml[1], aml[4], aml[5]) == (NOTHING, "**60.00 ± 0.00**", "+10.00")


def test_costs_are_per_epoch_and_link() -> None:
    results = [*two("aml", 50, 50, epochs=4, train_seconds=8.0, links=1000), result("ra", 0.5, epochs=0)]
    text = cost_table(["tiny"], ["aml", "ra", "sage"], Results(results))
    check_markdown(text)
    _, *rows = markdown_rows(text)
    assert rows == [["tiny, AML (S)", "4", "1,000", "2.0", "2,000", "50", "70"]]
    shared = cost_table(["tiny"], ["aml"], Results(two("aml", 50, 50, jobs=2)))
    assert markdown_rows(shared)[1][3:5] == [NOTHING, NOTHING]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, NOTHING), (0.0, "0"), (0.01234, "0.012"), (1.0, "1.0"), (99.94, "99.9"), (12345.6, "12,346")],
)
def test_seconds(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


def test_bars_are_escaped() -> None:
    text = markdown_table(["a", "b|c"], [["x|y", 1], ["z", 2]])
    check_markdown(text)
    assert text.splitlines() == ["| a | b\\|c |", "| --- | ---: |", "| x\\|y | 1 |", "| z | 2 |"]


def test_provenance_says_who_measured_what_when() -> None:
    text = provenance([*two("aml", 1, 2), result("ra", date="2026-01-09", jobs=4, machine="b")])
    assert "over 2 seeds" in text
    assert "a machine, torch 2.13.0, b, torch 2.13.0; 2026-01-02 – 2026-01-09." in text
    assert "Runs made 4 at a time have no time column." in text
    assert "one seed" in provenance([result()])
    assert provenance([]) == "No runs yet."


# ---- the paper's own figures


def test_published_figures_are_only_the_papers() -> None:
    assert published("debian", "aml") is None
    assert published("ogbl-collab", "ra") is None
    assert published("ogbl-collab", "aml") == Published(57.26, 1.25, 4.4e3)
    assert all(published(data, "cn") is not None for data in DATA)


NUMBER = r"(-?[\d.]+)"
FIGURE = re.compile(rf"{NUMBER}\$\\pm\${NUMBER}")
SECONDS = re.compile(rf"\${NUMBER}\\times10\^(\d)\$")


def paper_tables() -> list[tuple[str, list[list[str]]]]:
    """Returns caption and rows of every tabular of the paper; bold and footnotes are taken away."""
    text = PAPER.read_text(encoding="utf-8")
    text = re.sub(r"\\textbf\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}", r"\1", text)
    text = re.sub(r"\\bm\{([^{}]*)\}", r"\1", text).replace("*", "")
    text = re.sub(r" *\$\\pm\$ *", r"$\\pm$", text)
    text = re.sub(r"\\(midrule|toprule|bottomrule|cmidrule\S*)", "", text)
    found = []
    for match in re.finditer(r"\\begin\{tabular\}\{.*?\}(.*?)\\end\{tabular\}", text, re.S):
        caption = re.findall(r"\\caption\{(.*)", text[: match.start()])[-1]
        rows = [re.split(r"&", line) for line in match[1].split(r"\\") if "&" in line]
        found.append((caption, [[cell.strip() for cell in row] for row in rows]))
    return found


NAMES = {
    "SAGE": "sage",
    "GAT": "gat",
    "CN": "cn",
    "AA": "aa",
    "Node2vec": "node2vec",
    "MF": "mf",
    "DE-GNN": "degnn",
    "SEAL": "seal",
    "SMLP": "smlp",
    "AML (S)": "aml",
    "AML (G)": "aml-gat",
    "AML-R (S)": "aml-r",
    "AML-R (G)": "aml-r-gat",
    "AML": "aml",
    "AML (w/o KT)": "aml-no-kt",
    r"AML (w/o $\Delta^{(L)}$)": "aml-no-delta",
    "AML (w/o HO)": "aml-no-ho",
    "AML (w/o PE)": "aml-no-pe",
}


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
def test_published_figures_are_those_of_the_papers_source() -> None:
    seen: set[tuple[str, str]] = set()
    timed: set[tuple[str, str]] = set()
    wide = 0
    for caption, rows in paper_tables():
        figures = [row for row in rows if any(FIGURE.search(cell) for cell in row)]
        if not figures:
            continue
        per_row = len(FIGURE.findall(" ".join(figures[0])))
        wide += per_row == 3
        # Tables of one or two data sets: the first has collab and ppa, the one beside it citation2.
        data = {3: DATA, 2: DATA[:2], 1: DATA[2:]}[per_row]
        for row in figures:
            cells = [place for place, cell in enumerate(row) if FIGURE.search(cell)]
            label = row[cells[0] - 1]
            name = NAMES[label] + ("-gat" if caption.startswith("GAT as") and label.startswith("AML") else "")
            for data_name, place, end in zip(data, cells, [*cells[1:], len(row)], strict=True):
                own = published(data_name, name)
                assert own is not None, (caption, label)
                mean, std = FIGURE.search(row[place]).groups()  # type: ignore[union-attr]
                assert (own.mean, own.std) == (float(mean), float(std)), (caption, label, data_name)
                seen.add((data_name, name))
                for cell in row[place + 1 : end]:
                    if time := SECONDS.search(cell):
                        assert own.seconds == pytest.approx(float(time[1]) * 10 ** int(time[2]))
                        timed.add((data_name, name))
    ours = {(data, name) for data in DATA for name in VARIANTS if published(data, name)}
    assert seen == ours
    assert timed == {(data, name) for data, name in ours if published(data, name).seconds}  # type: ignore[union-attr]
    assert wide >= 4


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
def test_gaps_of_published_figures_are_the_papers_gaps() -> None:
    """Filling a table with the paper's figures must print the gaps that the paper prints."""
    results = []
    for data in DATA:
        for name in VARIANTS:
            figure = published(data, name)
            if figure is not None:
                results.append(result(name, figure.mean / 100, 0, data))
    text = PAPER.read_text(encoding="utf-8")
    printed = {match.replace("$", "") for match in re.findall(r"\$[+-][\d.]+\$", text)}
    ours = set()
    for name in ("main", "smlp", "ablation"):
        rows = markdown_rows(accuracy_table(SPECS[name], DATA, Results(results)))
        ours |= {cell for row in rows for cell in row[1:] if re.fullmatch(r"[+-][\d.]+", cell)}
    assert ours == printed


def test_table_labels_are_those_of_variants() -> None:
    spec = TableSpec("x", "x", (Part("", ("aml", "item2hop")),), time=False)
    rows = markdown_rows(accuracy_table(spec, ["tiny"], Results([])))
    assert [row[0] for row in rows[1:]] == [variant_named(name).label for name in ("aml", "item2hop")]
