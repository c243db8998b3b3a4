"""Bad input gets a sentence with file, line or node, exit code 2, and nothing half-written."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_case import SMALL, Cli, community_links, write_links

Files = Callable[[Path], list[object]]


def csv(text: str, *options: str) -> Files:
    """Writes g.csv and returns the arguments that name it."""

    def write(folder: Path) -> list[object]:
        (folder / "g.csv").write_text(text)
        return [folder / "g.csv", *options]

    return write


def with_features(array: np.ndarray) -> Files:
    """Three numbered nodes in a ring, with a feature matrix."""

    def write(folder: Path) -> list[object]:
        (folder / "g.csv").write_text("a,b\n0,1\n1,2\n2,0\n0,2\n")
        np.save(folder / "x.npy", array)
        return [folder / "g.csv", "--features", folder / "x.npy"]

    return write


def with_nodes(folder: Path) -> list[object]:
    (folder / "n.csv").write_text("id\nx\ny\n")
    (folder / "g.csv").write_text("a,b\nx,y\ny,z\n")
    return [folder / "g.csv", "--nodes", folder / "n.csv"]


def split_beyond(folder: Path) -> list[object]:
    ring = np.array([[0, 1, 2], [1, 2, 0]])
    arrays = {"num_nodes": np.int64(3), "directed": np.bool_(True), "train": ring[:, :2], "valid": ring[:, 2:]}
    np.savez(folder / "g.npz", **arrays, test=np.array([[0], [9]]))
    return [folder / "g.npz"]


BAD: dict[str, tuple[Files, str]] = {
    "missing": (lambda folder: [folder / "none.csv"], "none.csv"),
    "misspelt name": (lambda folder: ["debain"], "did you mean 'debian'?"),
    "folder": (lambda folder: [folder], "is a folder"),
    "wrong column": (csv("from,to\nx,y\n", "--source-column", "frm"), "g.csv has no column 'frm'"),
    "ragged": (csv("a,b\nx,y\ny,z,w\n"), "line 3"),
    "empty id": (csv("a,b\nx,y\ny,\n"), "line 3"),
    "empty file": (csv(""), "g.csv is empty"),
    "header only": (csv("a,b\n"), "header and no rows"),
    "one node": (csv("a,b\nx,x\n"), "has 1 node"),
    "no links": (csv("a,b\nx,x\ny,y\n"), "has no links (dropped 2 self-loops"),
    "too few links": (csv("a,b\nx,y\n"), "has 1 links"),
    "NaN feature": (with_features(np.array([[1.0], [np.nan], [0.0]])), "x.npy"),
    "infinite feature": (with_features(np.array([[1.0], [2.0], [np.inf]])), "node 2"),
    "text feature": (with_features(np.array([["a"], ["b"], ["c"]])), "expected numbers"),
    "feature rows": (with_features(np.ones((2, 4))), "has 2 rows"),
    "node table lacks": (with_nodes, "'z'"),
    "split beyond": (split_beyond, "'test' names node 9"),
    "text without nodes": (csv("a,b\nx,y\n", "--text", "about"), "text"),
    "only valid": (csv("a,b\nx,y\n", "--valid", "v.csv"), "only one of valid and test"),
    "no times": (csv("a,b\nx,y\ny,z\nz,x\n", "--split", "time"), "no times"),
}


@pytest.mark.parametrize("case", BAD)
def test_train_refuses(cli: Cli, tmp_path: Path, case: str) -> None:
    files, message = BAD[case]
    arguments = files(tmp_path)
    before = set(tmp_path.iterdir())
    answer = cli("train", *arguments, "--out", tmp_path / "out" / "run", *SMALL, "--json")
    assert answer.code == 2, answer
    assert message in answer.json["error"]
    assert answer.err.strip().splitlines()[-1] == f"error: {answer.json['error']}"
    assert "Traceback" not in answer.err
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("case", ["missing", "ragged", "one node", "feature rows", "split beyond"])
@pytest.mark.parametrize("command", ["info", "split"])
def test_data_commands_refuse(cli: Cli, tmp_path: Path, case: str, command: str) -> None:
    files, message = BAD[case]
    arguments = files(tmp_path)
    before = set(tmp_path.iterdir())
    out = ["--out", tmp_path / "out" / "s.npz"] if command == "split" else []
    answer = cli("data", command, *arguments, *out, "--json")
    assert answer.code == 2
    assert message in answer.json["error"]
    assert set(tmp_path.iterdir()) == before


def test_data_split_wants_npz(cli: Cli, links_csv: Path, tmp_path: Path) -> None:
    answer = cli("data", "split", links_csv, "--out", tmp_path / "s.csv")
    assert (answer.code, "written as .npz" in answer.err) == (2, True)


@pytest.fixture
def leaking(tmp_path: Path) -> list[object]:
    """A split of which five validation and two test links are also training links."""
    links = community_links()
    random.Random(0).shuffle(links)  # so that the training links reach every node
    parts = {"train": links[:307], "valid": links[302:330], "test": [*links[330:], *links[:2]]}
    files = {name: write_links(tmp_path / f"{name}.csv", part) for name, part in parts.items()}
    return [files["train"], "--valid", files["valid"], "--test", files["test"]]


def test_leaking_split_is_refused_with_the_count(cli: Cli, tmp_path: Path, leaking: list[object]) -> None:
    answer = cli("train", *leaking, "--out", tmp_path / "run", *SMALL)
    assert answer.code == 2
    assert "the given split leaks: 7 links" in answer.err
    assert "--drop-leaks" in answer.err
    assert not (tmp_path / "run").exists()
    assert cli("data", "split", *leaking, "--out", tmp_path / "s.npz").code == 2
    assert "leaks: 7" in cli("data", "info", *leaking, "--json").json["split"]["problem"]


@pytest.mark.slow
def test_leaks_can_be_dropped(cli: Cli, tmp_path: Path, leaking: list[object]) -> None:
    answer = cli("train", *leaking, "--out", tmp_path / "run", *SMALL, "--drop-leaks", "--json")
    assert answer.code == 0
    assert answer.json["finished"] is True
    assert "7 overlapping training links were dropped" in answer.err
    made = cli("data", "split", *leaking, "--out", tmp_path / "s.npz", "--drop-leaks", "--json").json
    assert (made["train"], made["dropped"]) == (300, 7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--heads", "p00,p77"], "the first is 'p77'"),
        (["--heads", "p00", "-k", "60"], "k = 60"),
        (["--heads", "p00", "-k", "0"], "k must be at least 1"),
        (["--heads", " , "], "--heads names no node"),
        (["--heads", "p00", "--heads-file", "x"], "not both"),
        (["--heads-file", "none.txt"], "cannot read none.txt: No such file"),
        ([], "add --out FILE.parquet"),
        (["--heads", "p00", "--device", "cuda:x"], "unknown device"),
    ],
)
def test_recommend_refuses(cli: Cli, run_folder: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    out = ["--out", tmp_path / "r.csv"] if arguments else []
    answer = cli("recommend", run_folder, *arguments, *out, "--json")
    assert answer.code == 2
    assert message in answer.json["error"]
    assert list(tmp_path.iterdir()) == []


def test_output_suffix_is_told_before_the_run_is_read(cli: Cli, tmp_path: Path) -> None:
    for command in (["recommend", "no-run"], ["predict", "no-run", "no-pairs.csv"]):
        answer = cli(*command, "--out", tmp_path / "answers.xlsx")
        assert (answer.code, "written as .parquet or .csv" in answer.err) == (2, True)


def test_predict_refuses(cli: Cli, run_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.csv"
    unknown = write_links(tmp_path / "pairs.csv", [("p00", "p01"), ("p00", "nobody")])
    answer = cli("predict", run_folder, unknown, "--out", out)
    assert (answer.code, "'nobody'" in answer.err) == (2, True)
    assert cli("predict", run_folder, tmp_path / "none.csv", "--out", out).code == 2
    assert "no column 'x'" in cli("predict", run_folder, unknown, "--source-column", "x", "--out", out).err
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "--reliability", "plot.pdf"], "written as .png or .svg"),
        (["evaluate", "--reliability", "plot.png", "--split", "valid"], "only the test links can judge them"),
        (["predict", "pairs.csv", "--prior", "0.1"], "add --probability"),
        (["predict", "pairs.csv", "--probability", "--prior", "0"], "prior cannot be 0.0"),
    ],
)
def test_probabilities_refuse(
    cli: Cli, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_links(Path("pairs.csv"), [("p00", "p01")])
    answer = cli(arguments[0], run_folder, *arguments[1:], "--json")
    assert (answer.code, message in answer.json["error"]) == (2, True), answer
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.csv"]


def test_evaluate_refuses(cli: Cli, run_folder: Path, tmp_path: Path) -> None:
    assert "is not a run folder" in cli("evaluate", tmp_path).err
    answer = cli("evaluate", run_folder, "--split", "train", "--json")
    assert answer.code == 2
    assert "'test', 'valid'" in answer.json["error"]
