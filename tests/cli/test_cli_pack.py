"""`headtail data pack`, and the commands that read what it wrote."""

import json
from pathlib import Path

import numpy as np
import pytest
from cli_case import SMALL, Cli, community_links, write_links

pytest.importorskip("duckdb")


@pytest.mark.slow
def test_from_links_to_recommendations(cli: Cli, tmp_path: Path) -> None:
    links = write_links(tmp_path / "links.csv", community_links())
    names = sorted({name for pair in community_links() for name in pair})
    (tmp_path / "nodes.csv").write_text("\n".join(["id", *names]) + "\n", encoding="utf-8")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((len(names), 4)))
    graph, run = tmp_path / "graph.ht", tmp_path / "run"
    files = ("--features", str(tmp_path / "x.npy"), "--nodes", str(tmp_path / "nodes.csv"))
    packed = cli("data", "pack", str(links), *files, "-o", str(graph), "--json")
    assert packed.code == 0, packed.err
    assert packed.json["train"] + packed.json["valid"] + packed.json["test"] == 400
    assert packed.json["num_nodes"] == len(names)
    assert "6/6 copying features: done." in packed.err
    assert json.loads((graph / "manifest.json").read_text())["version"] == 1
    info = cli("data", "info", str(graph), "--json")
    assert info.code == 0, info.err
    assert info.json["split"]["strategy"] == "random"
    assert (info.json["feature_columns"], info.json["nodes"]) == (4, len(names))
    small = [flag if flag != "--structure" else "--featureless" for flag in SMALL]
    trained = cli("train", str(graph), "--out", str(run), *small, "--features-on", "disk", "--json")
    assert trained.code == 0, trained.err
    assert (graph / "encoded-row-2.npy").is_file() or trained.json["best_epoch"] > 0
    judged = cli("evaluate", str(run), "--device", "cpu", "--json")
    assert judged.json["mrr"] == trained.json["mrr"]
    answer = cli("recommend", str(run), "--heads", "p03", "-k", "2", "--device", "cpu", "--json")
    assert answer.code == 0, answer.err
    assert len(answer.json["links"]) == 2
    assert answer.json["evidence"] == "training"
    assert "answered from the training links alone: the graph is packed" in answer.err
    assert "the training links alone, since the graph is packed" in (run / "README.md").read_text()
    refused = cli("recommend", str(run), "--heads", "p03", "--evidence", "all", "--device", "cpu")
    assert refused.code == 2
    assert f"{graph} is packed, and only its training links are laid out" in refused.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--split", "source"), "not 'source'"),
        (("--test-share", "0.9"), "below 0.5"),
        (("--split", "time"), "name their --time-column"),
        (("--valid", "links.csv"), "a split needs both"),
        (("--features", "links.csv"), "reads features as .npy"),
        (("--nodes", "none.csv"), "there is no file none.csv"),
    ],
)
def test_bad_input_gets_a_sentence(
    flags: tuple[str, ...], message: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_links(tmp_path / "links.csv", community_links())
    answer = cli("data", "pack", "links.csv", "-o", "graph.ht", *flags)
    assert answer.code == 2
    assert message in answer.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["links.csv"]
