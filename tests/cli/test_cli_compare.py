"""`headtail compare`, `paper` and `methods`: from the words of a command to tables, and what goes wrong on the way."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_case import SMALL, Cli

from headtail import methods
from headtail.cli import main
from headtail.experiments import grid
from headtail.experiments.grid import GridProgress, Planned
from headtail.experiments.paper import TABLES
from headtail.experiments.variants import VARIANTS
from headtail.training.observer import Observer
from tiny_runs import timeless

# Two epochs of a tiny model, wherever the preset is; lists are of all nodes, which are few.
TINY = (*SMALL, "--layers", "2", "--links-per-batch", "128", "--answers", "exact")
OF_LISTS = ("recall@10", "recall@50", "mrr@50")


class Stop(Observer):
    """Presses Ctrl-C in the first batch."""

    def batch_done(self, epoch: int, batch: int, batches: int, links: int, loss: float) -> None:
        raise KeyboardInterrupt


@pytest.fixture
def ctrl_c(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Interrupts the run of the method sage."""
    observing = GridProgress.observing

    def stopping(watch: GridProgress, run: Planned) -> Observer:
        return Stop() if run.variant.name == "sage" else observing(watch, run)

    with monkeypatch.context() as patch:
        patch.setattr(GridProgress, "observing", stopping)
        yield patch


def sentence(text: str) -> str:
    """The one line that stderr must be."""
    (line,) = text.strip().splitlines()
    return line


# ---- compare


def test_a_comparison_as_json(cli: Cli, links_csv: Path) -> None:
    answer = cli("compare", links_csv, "--methods", "ra, aml,ra", "--json", *TINY)
    assert answer.code == 0
    found = answer.json
    assert {name: found[name] for name in ("data", "metric", "protocol", "test_graph")} == {
        "data": "links",
        "metric": "mrr",
        "protocol": "clean",
        "test_graph": "train",
    }
    assert {line["method"] for line in found["methods"]} == {"aml", "ra"}
    tests = [line["test"] for line in found["methods"]]
    assert tests == sorted(tests, reverse=True)
    assert all(0 < test <= 100 for test in tests)


@pytest.mark.slow
def test_a_comparison_gives_what_training_gives(cli: Cli, links_csv: Path, run_folder: Path, tmp_path: Path) -> None:
    """`strong` is what training gives by default, `aml` what it gives with the preset of comparisons, fast."""
    fast = cli("train", links_csv, "--out", tmp_path / "fast", "--preset", "fast", "--json", *SMALL).json
    wanted = {"strong": cli("evaluate", run_folder, "--json").json["mrr"], "aml": fast["mrr"]}
    assert wanted["strong"] != wanted["aml"]
    lines = cli("compare", links_csv, "--methods", "strong,aml", "--json", *SMALL).json["methods"]
    assert {line["method"]: line["test"] / 100 for line in lines} == pytest.approx(wanted)


@pytest.mark.slow
def test_a_comparison_begins_with_strong(cli: Cli, links_csv: Path) -> None:
    lines = cli("compare", links_csv, "--json", *TINY).json["methods"]
    assert {line["method"] for line in lines} == {"strong", "aml", "sage", "cn", "aa", "ra", "item2hop"}


@pytest.mark.slow
def test_a_comparison_for_people(cli: Cli, links_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out = tmp_path / "out"
    arguments = ("compare", links_csv, "--methods", "aml,cn", "--repeats", 2, "--out", out, *TINY)
    answer = cli(*arguments)
    assert answer.code == 0
    assert "links: MRR among 20 each (%), clean" in answer.out
    assert {line.split()[0] for line in answer.out.splitlines() if line.strip()} >= {"method", "aml", "cn", "Results,"}
    assert sorted(path.name for path in out.iterdir()) == ["comparison.md", "comparison.png", "results.jsonl"]
    assert (out / "comparison.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "comparison.md").read_text().startswith("# links: MRR among 20 each (%), clean\n")
    assert f"| method | test | valid | {' | '.join(OF_LISTS)} |" in (out / "comparison.md").read_text()
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [(line["method"], line["seed"]) for line in lines] == [("aml", 0), ("cn", 0), ("aml", 1)]
    again = cli(*arguments)
    assert again.code == 0
    assert sentence(again.err) == f"3 of 3 runs are in {out / 'results.jsonl'} already."
    assert again.out == answer.out


@pytest.mark.slow
def test_a_comparison_by_lists(cli: Cli, links_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out = tmp_path / "out"
    arguments = ("compare", links_csv, "--methods", "aml,cn", "--out", out, *TINY)
    off = cli(*arguments, "--heads-sampled", 0)
    assert "recall@10" not in off.out
    plain = cli(*arguments, "--heads-sampled", 0, "--json").json["methods"]
    assert all("all_nodes" not in line for line in plain)
    asked = cli(*arguments, "--heads-sampled", 9, "--json")
    assert "already" not in asked.err  # what is kept lacks the lists
    lines = {line["method"]: line for line in asked.json["methods"]}
    for method in ("aml", "cn"):
        run = tmp_path / method
        settings = ("--preset", "fast", "--method", method, "--heads-sampled", 9, *TINY)
        wanted = cli("train", links_csv, "--out", run, *settings, "--json").json["all_nodes"]
        assert timeless(lines[method]["all_nodes"]) == pytest.approx(timeless(wanted))
    again = cli(*arguments, "--heads-sampled", 9)
    assert "2 of 2 runs are in" in again.err
    assert "recall@10, recall@50, mrr@50 (%): test links of 9 heads among all nodes" in again.out
    (row,) = [line.split() for line in again.out.splitlines() if line.split()[:1] == ["cn"]]
    assert row[3:6] == [f"{100 * lines['cn']['all_nodes'][name]:.2f}" for name in OF_LISTS]
    assert "2 of 2 runs are in" in cli(*arguments, "--heads-sampled", 0).err
    default = {line["method"]: line for line in cli(*arguments, "--json").json["methods"]}
    wanted = cli("evaluate", tmp_path / "aml", "--json").json["all_nodes"]
    assert timeless(default["aml"]["all_nodes"]) == pytest.approx(timeless(wanted))
    assert wanted["heads"] > 9


@pytest.mark.slow
def test_changed_links_are_another_comparison(cli: Cli, links_csv: Path, tmp_path: Path) -> None:
    path = tmp_path / "links.csv"
    path.write_bytes(links_csv.read_bytes())
    arguments = ("compare", path, "--methods", "ra", "--json", "--out", tmp_path / "out", *TINY)
    first = cli(*arguments).json["methods"][0]["test"]
    assert cli(*arguments, "--undirected").json["methods"][0]["test"] != first
    path.write_text("\n".join(path.read_text().splitlines()[:200]))
    changed = cli(*arguments)
    assert changed.json["methods"][0]["test"] != first
    assert "already" not in changed.err


@pytest.mark.slow
@pytest.mark.parametrize("keep", [True, False])
def test_ctrl_c_is_one_sentence(
    cli: Cli, links_csv: Path, tmp_path: Path, ctrl_c: pytest.MonkeyPatch, keep: bool
) -> None:
    out = tmp_path / "out"
    arguments = ["compare", links_csv, "--methods", "ra,sage,aml", "--json", *TINY, *(["--out", out] if keep else [])]
    answer = cli(*arguments)
    assert answer.code == 130
    assert answer.out == ""
    told = [line for line in answer.err.splitlines() if not line.startswith("links ra seed 0: ")]
    if not keep:
        assert told == ["interrupted; nothing is kept without --out FOLDER."]
        return
    results = out / "results.jsonl"
    assert told == [f"interrupted; finished runs are kept in {results}. Run the same command again to go on."]
    ctrl_c.undo()
    again = cli(*arguments)
    assert again.code == 0
    assert again.err.splitlines()[0] == f"1 of 3 runs are in {results} already."
    assert len(again.json["methods"]) == 3


def test_ctrl_c_while_data_is_read(cli: Cli, links_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def press(*arguments: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(grid, "run_once", press)
    answer = cli("compare", links_csv, "--methods", "ra", *TINY)
    assert (answer.code, sentence(answer.err)) == (130, "interrupted; nothing is kept without --out FOLDER.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--methods", "aml,sael"), "unknown method 'sael'; did you mean 'seal'? Valid: seal, "),
        (("--methods", ","), "no method is named"),
        (("--preset", "fst"), "unknown preset 'fst'; did you mean 'fast'?"),
        (("--repeats", "0"), "'--repeats'"),
        (("--epochs", "0"), "setting 'epochs' cannot be 0"),
        (("--out", "{file}"), "results"),
    ],
)
def test_wrong_words_are_told(
    cli: Cli, links_csv: Path, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "file").write_text("")
    given = [argument.format(file=tmp_path / "file") for argument in arguments]
    answer = cli("compare", links_csv, *given)
    assert answer.code == 2
    assert words in sentence(answer.err)


def test_data_that_is_not_there_is_told(cli: Cli, tmp_path: Path) -> None:
    answer = cli("compare", "debain", "--methods", "ra")
    assert answer.code == 2
    assert "there is no file 'debain' and no data set of that name; did you mean 'debian'?" in sentence(answer.err)


# ---- paper


def paper(cli: Cli, *arguments: object) -> Any:
    return cli("paper", *arguments, *TINY, "--preset", "fast")


def test_a_table_of_the_paper(cli: Cli, links_csv: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    answer = paper(cli, "smlp", "--data", links_csv, "--repeats", 1, "--out", out)
    assert answer.code == 0
    assert answer.out == (out / "smlp.md").read_text() + "\n"
    assert answer.out.startswith("## Is the GNN necessary?\n\n| method | links: MRR among 20 each (%), clean | gap |\n")
    assert answer.err.splitlines()[-1] == f"Tables, plots and results are in {out}."
    again = paper(cli, "smlp", "--data", links_csv, "--repeats", 1, "--out", out, "--json")
    assert again.json == {"out": str(out), "tables": {"smlp": answer.out.rstrip("\n")}}
    assert sentence(again.err) == f"3 of 3 runs are in {out / 'results.jsonl'} already."


def test_data_may_be_named_twice_and_with_commas(cli: Cli, links_csv: Path, tmp_path: Path) -> None:
    arguments = ("--data", f"planted,{links_csv}", "--data", "planted", "--out", tmp_path, "--json")
    table = paper(cli, "statistics", *arguments).json["tables"]["statistics"]
    assert [line.split()[1] for line in table.splitlines()[4:6]] == ["planted", "links"]


def test_settings_of_a_data_set_from_yaml(cli: Cli, links_csv: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("links: {hidden: 4, layers: 1, methods: {smlp: {layers: 3}}}")
    arguments = ["paper", "smlp", "--data", links_csv, "--repeats", "1", "--out", tmp_path, "--preset", "fast"]
    answer = cli(*arguments, "--per-data", tmp_path / "settings.yaml", "--epochs", "1", "--eval-negatives", "20")
    assert answer.code == 0
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert {line["method"]: line["settings"]["hidden"] for line in lines} == {"smlp": 4, "aml": 4, "aml-gat": 4}
    assert {line["method"]: line["settings"].get("layers", 3) for line in lines} == {"smlp": 3, "aml": 1, "aml-gat": 1}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mian",), "unknown table 'mian'; did you mean 'main'? Valid: main, "),
        (("xyz",), "Valid: ablation, all, complexity, curves, main, others, reversed, smlp, statistics."),
        (("main", "--data", "debain"), "no data set of that name; did you mean 'debian'? Valid: debian, "),
        (("main", "--data", "metamat", "--root", "{root}"), "did you mean 'metamath'? Valid: metamath, "),
        (("main", "--data", ","), "no data set is named"),
        (("main", "--data", "planted", "--per-data", "{root}/none.yaml"), "cannot read settings"),
        (("main", "--data", "planted", "--per-data", "{root}/bad.yaml"), "unknown method 'amll'; did you mean 'aml'?"),
        (("main", "--data", "planted", "--neighbours", "bnss"), "unknown neighbour sampler 'bnss'"),
        (("main", "--data", "planted", "--jobs", "0"), "'--jobs'"),
        (("statistics", "--data", "ogbl-ddi", "--root", "{root}"), "lacks raw/num-node-list.csv.gz"),
        (("statistics", "--data", "planted", "--out", "{root}/bad.yaml"), "cannot write"),
    ],
)
def test_wrong_words_for_the_paper_are_told(cli: Cli, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    (tmp_path / "metamath.npz").write_bytes(b"")
    (tmp_path / "bad.yaml").write_text("planted: {methods: {amll: {}}}")
    given = [argument.format(root=tmp_path) for argument in arguments]
    answer = cli("paper", *given, *([] if "--out" in given else ["--out", tmp_path / "out"]), "--json")
    assert answer.code == 2
    assert words in sentence(answer.err)
    assert answer.json == {"error": sentence(answer.err).removeprefix("error: ")}
    assert "Traceback" not in answer.err


@pytest.mark.slow
def test_ctrl_c_in_the_paper(cli: Cli, links_csv: Path, tmp_path: Path, ctrl_c: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    arguments = ("main", "--data", links_csv, "--repeats", 1, "--out", out)
    answer = paper(cli, *arguments)
    assert (answer.code, answer.out) == (130, "")
    assert sentence(answer.err) == f"interrupted; finished runs are kept in {out}. Run the same command again to go on."
    ctrl_c.undo()
    assert paper(cli, *arguments).code == 0


@pytest.mark.slow
def test_the_whole_paper(links_csv: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "out"
    arguments = ("all", "--data", links_csv, "--repeats", 1, "--out", out, "--json", "--links-per-epoch", 40)
    first = paper(cli, *arguments)
    assert first.code == 0
    assert list(first.json["tables"]) == list(TABLES)
    sizes = {path.name: path.stat().st_size for path in out.glob("*.jsonl")}
    second = paper(cli, *arguments)
    assert second.json == first.json
    assert {path.name: path.stat().st_size for path in out.glob("*.jsonl")} == sizes


# ---- methods


def test_methods_lists_all_that_can_be_compared(cli: Cli) -> None:
    answer = cli("methods", "--json")
    assert answer.code == 0
    assert set(answer.json) == {*VARIANTS, *methods.summaries()}
    assert all(len(text) > 3 for text in answer.json.values())
    assert "knowledge_transfer=False" in answer.json["aml-no-kt"]
    table = cli("methods").out
    assert all(name in table for name in ("aml", "item2hop", "degnn-rws"))


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("compare", "paper", "methods"):
        assert main([command, "--help"]) == 0
        assert f"headtail {command}" in capsys.readouterr().out
