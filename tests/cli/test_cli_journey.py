"""From a CSV with text ids to ranked links, command by command."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_case import SMALL, Cli, community_links, write_links

COUNTERS = {"gnn_node_encodings", "blocked_node_encodings", "mlp_node_encodings", "pairs_scored"}


def test_train_tells_what_it_found_and_where_the_run_is(cli: Cli, links_csv: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    answer = cli("train", links_csv, "--out", out, *SMALL)
    assert answer.code == 0
    assert "dropped 2 self-loops and 1 duplicate links." in answer.err
    assert "leak audit passed: none of 60 held-out links" in answer.err
    assert "epoch 2/2" in answer.err
    assert "mrr" in answer.out
    assert "gnn node encodings" in answer.out
    assert f"headtail recommend {out} --heads p00" in answer.out
    assert {path.name for path in out.iterdir()} >= {"config.yaml", "model.safetensors", "metrics.jsonl", "README.md"}


def test_train_as_json_agrees_with_evaluate(cli: Cli, links_csv: Path, tmp_path: Path) -> None:
    trained = cli("train", links_csv, "--out", tmp_path / "run", *SMALL, "--json").json
    assert trained["finished"] is True
    assert trained["run"] == str(tmp_path / "run")
    evaluated = cli("evaluate", tmp_path / "run", "--device", "cpu", "--json").json
    for key in ("split", "metric", "mrr", "hits@10", "best_epoch", "epochs", "per_epoch"):
        assert evaluated[key] == trained[key], key
    assert set(evaluated["per_epoch"]) == COUNTERS
    assert evaluated["per_epoch"]["pairs_scored"] == 340 * 2  # a negative beside each training link


def test_answers_from_all_links_or_those_of_training(cli: Cli, run_folder: Path, tmp_path: Path) -> None:
    asked = write_links(tmp_path / "pairs.csv", [("p59", "p00"), ("p00", "p01"), ("p30", "p31")])
    for question, rows in (
        (("recommend", run_folder, "--heads", "p33"), "links"),
        (("predict", run_folder, asked), "scores"),
    ):
        default, every, training = (
            cli(*question, *more, "--json").json for more in ((), ("--evidence", "all"), ("--evidence", "training"))
        )
        assert [answer["evidence"] for answer in (default, every, training)] == ["all", "all", "training"]
        assert default[rows] == every[rows] != training[rows]
        refused = cli(*question, "--evidence", "some")
        assert refused.code == 2
        assert "'some' is not one of 'all', 'training'" in refused.err.replace("\n", " ")


def test_evaluate_either_split(cli: Cli, run_folder: Path) -> None:
    best = max(
        json.loads(line)["valid_mrr"]
        for line in (run_folder / "metrics.jsonl").read_text().splitlines()
        if "valid_mrr" in line
    )
    assert cli("evaluate", run_folder, "--split", "valid", "--json").json["mrr"] == pytest.approx(best)
    shown = cli("evaluate", run_folder).out
    assert "test metric" in shown
    assert "hits@10 among 20 each" in shown


def test_lists_are_judged_beside_the_metric(
    cli: Cli, run_folder: Path, tmp_path: Path, links_csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # names stay on a line
    figures = cli("evaluate", run_folder, "--heads-sampled", 9, "--json").json["all_nodes"]
    shown = cli("evaluate", run_folder, "--heads-sampled", 9).out
    assert figures["heads"] == 9
    assert f"{figures['links']} links of 9 heads" in shown
    assert "among all 60 nodes" in shown
    for name in ("recall@10", "recall@50", "mrr@50", "head_recall@20", "head_ndcg@20"):
        assert [line.split() for line in shown.splitlines() if line.split()[:1] == [name]] == [
            [name, f"{100 * figures[name]:.2f}"]
        ]
    assert cli("evaluate", run_folder, "--json").json["all_nodes"]["heads"] > 9  # 1,500 at most
    none = cli("evaluate", run_folder, "--heads-sampled", 0)
    assert "among all" not in none.out
    assert "Answers are" not in none.out
    assert "all_nodes" not in cli("evaluate", run_folder, "--heads-sampled", 0, "--json").json
    answers = cli("evaluate", run_folder, "--json").json["answers"]
    assert answers["exact"] is False
    assert f"Answers are ranked by {answers['choice']}, over about {answers['candidates']} candidates" in shown
    for each in answers["compared"]:
        assert each["choice"] in shown
    trained = cli("train", links_csv, "--out", tmp_path / "run", *SMALL, "--heads-sampled", 9)
    assert "9 heads" in trained.out
    wrong = cli("evaluate", run_folder, "--heads-sampled", -1)
    assert (wrong.code, "'--heads-sampled'" in wrong.err) == (2, True)


def test_hits_of_shared_pairs_are_named_so(cli: Cli, links_csv: Path, tmp_path: Path) -> None:
    answer = cli("train", links_csv, "--out", tmp_path / "run", *SMALL, "--metric", "hits@20", "--eval-negatives", "1")
    assert "valid hits@20 against pairs" in answer.err
    for name in ("hits@20", "hits@50", "hits@100"):
        assert f"{name} against 1,000 pairs" in answer.out
    assert "| hits@20 against 1,000 pairs |" in (tmp_path / "run" / "README.md").read_text()
    told = cli("evaluate", tmp_path / "run", "--json").json
    assert told["ranked_among"] == {"negatives": 1000, "shared": True}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predict_keeps_the_order_of_the_file(cli: Cli, run_folder: Path, tmp_path: Path, suffix: str) -> None:
    pairs = [("p59", "p00"), ("p00", "p01"), ("p30", "p31"), ("p00", "p01")]
    asked = write_links(tmp_path / "pairs.csv", pairs)
    printed = cli("predict", run_folder, asked, "--json").json["scores"]
    assert [(row["head"], row["tail"]) for row in printed] == pairs
    assert printed[1]["score"] == printed[3]["score"]
    assert len({row["score"] for row in printed}) == 3
    out = tmp_path / f"scores.{suffix}"
    assert cli("predict", run_folder, asked, "--out", out, "--json").json == {
        "run": str(run_folder),
        "evidence": "all",
        "rows": 4,
        "file": str(out),
    }
    table = pd.read_csv(out) if suffix == "csv" else pd.read_parquet(out)
    assert list(table.columns) == ["head", "tail", "score"]
    assert np.allclose(table["score"], [row["score"] for row in printed])


def test_predict_shows_the_first_rows(cli: Cli, run_folder: Path, tmp_path: Path) -> None:
    asked = write_links(tmp_path / "pairs.csv", community_links()[:30])
    answer = cli("predict", run_folder, asked)
    assert answer.code == 0
    assert answer.out.count("p00") >= 1
    assert "and 10 more rows" in answer.out


def test_predict_with_probabilities(cli: Cli, run_folder: Path, tmp_path: Path) -> None:
    asked = write_links(tmp_path / "pairs.csv", [("p59", "p00"), ("p00", "p01")])
    even = cli("predict", run_folder, asked, "--probability", "--json").json["scores"]
    rare = cli("predict", run_folder, asked, "--probability", "--prior", "0.01", "--json").json["scores"]
    for one, other in zip(even, rare, strict=True):
        odds = one["probability"] / (1 - one["probability"]) / 99
        assert other["probability"] == pytest.approx(odds / (1 + odds))
    printed = cli("predict", run_folder, asked, "--probability").out
    assert f"{even[0]['probability']:.4g}" in printed
    shown = [line.rstrip() for line in printed.splitlines() if line.strip() and "─" not in line]
    assert len({len(line) for line in shown}) == 1  # numbers are flushed right, below the heading
    out = tmp_path / "p.csv"
    cli("predict", run_folder, asked, "--probability", "--out", out)
    assert pd.read_csv(out)["probability"].tolist() == pytest.approx([row["probability"] for row in even])


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_evaluate_judges_probabilities(cli: Cli, run_folder: Path, tmp_path: Path, suffix: str) -> None:
    plot = tmp_path / "new" / f"reliability.{suffix}"
    answer = cli("evaluate", run_folder, "--reliability", plot, "--json")
    figures = answer.json["reliability"]
    assert (set(figures), figures["file"]) == ({"brier", "log_loss", "ece", "file"}, str(plot))
    assert 0 < figures["brier"] < 0.25
    assert plot.read_bytes().startswith(b"\x89PNG" if suffix == "png" else b"<?xml")
    assert [path.name for path in plot.parent.iterdir()] == [plot.name]
    text = cli("evaluate", run_folder, "--reliability", plot).out
    assert f"{figures['brier']:.4f}" in text
    assert f"{figures['log_loss']:.4f}" in text
    assert "reliability" not in cli("evaluate", run_folder, "--json").json


def test_predict_warns_of_a_pair_read_as_header(cli: Cli, run_folder: Path, tmp_path: Path) -> None:
    asked = write_links(tmp_path / "pairs.csv", [("p00", "p01")], header="p02,p03")
    answer = cli("predict", run_folder, asked, "--json")
    assert answer.json["rows"] == 1
    assert "line 1 (p02, p03) was read as the header" in answer.err
    fine = cli("predict", run_folder, write_links(tmp_path / "fine.csv", [("p00", "p01")]))
    assert "header" not in fine.err


def test_recommend_answers_with_new_links_only(cli: Cli, run_folder: Path) -> None:
    rows = cli("recommend", run_folder, "--heads", "p33, p00", "-k", "4", "--json").json["links"]
    assert [(row["head"], row["rank"]) for row in rows] == [(h, r) for h in ("p33", "p00") for r in (1, 2, 3, 4)]
    pairs = {(row["head"], row["tail"]) for row in rows}
    assert not pairs & set(community_links())
    assert all(head != tail for head, tail in pairs)
    assert "p33" in cli("recommend", run_folder, "--heads", "p33").out


def test_recommend_with_known_links(cli: Cli, run_folder: Path) -> None:
    rows = cli("recommend", run_folder, "--heads", "p00", "-k", "59", "--include-known", "--json").json["links"]
    assert len(rows) == 59
    new = cli("recommend", run_folder, "--heads", "p00", "-k", "59", "--json").json["links"]
    known = sum(head == "p00" for head, _ in community_links())
    assert len(new) == 59 - known


def test_recommend_all_nodes_into_a_file(cli: Cli, run_folder: Path, tmp_path: Path) -> None:
    answer = cli("recommend", run_folder, "-k", "3", "--out", tmp_path / "new" / "links.parquet", "--json")
    assert (answer.json["heads"], answer.json["rows"]) == (60, 180)
    assert "180 links for 60 heads" in answer.err
    table = pd.read_parquet(tmp_path / "new" / "links.parquet")
    assert table["head"].nunique() == 60
    names = tmp_path / "heads.txt"
    names.write_text("p07\n\np41\n")
    cli("recommend", run_folder, "-k", "3", "--heads-file", names, "--out", tmp_path / "some.csv")
    some = pd.read_csv(tmp_path / "some.csv")
    expected = table[table["head"].isin(["p07", "p41"])]
    assert some["tail"].tolist() == expected["tail"].tolist()


def test_data_info_counts(cli: Cli, links_csv: Path) -> None:
    facts = cli("data", "info", links_csv, "--json").json
    degrees = pd.Series([head for head, _ in community_links()]).value_counts()
    assert (facts["nodes"], facts["links"], facts["directed"]) == (60, 400, True)
    assert (facts["dropped_self_loops"], facts["dropped_duplicates"]) == (2, 1)
    assert facts["links_from_a_node"]["max"] == degrees.max()
    assert facts["links_from_a_node"]["of_node"] in set(degrees[degrees == degrees.max()].index)
    assert facts["isolated_nodes"] == 0
    assert (facts["feature_columns"], facts["times"]) == (0, None)
    assert [facts["split"][part] for part in ("strategy", "train", "valid", "test")] == ["random", 340, 20, 40]
    text = cli("data", "info", links_csv, "--undirected").out
    assert "links of a node" in text
    assert "p00, p01, p02" in text


def test_data_info_sees_isolated_nodes_times_and_features(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("a,b,year\nx,y,2001\ny,z,2003\nz,x,2002\n")
    (tmp_path / "n.csv").write_text("id,about\nx,red\ny,green\nz,blue\nlonely,red green\n")
    options = ("--time-column", "year", "--nodes", tmp_path / "n.csv", "--text", "about")
    facts = cli("data", "info", tmp_path / "l.csv", *options, "--json").json
    assert (facts["nodes"], facts["isolated_nodes"], facts["times"]) == (4, 1, [2001, 2003])
    assert facts["feature_columns"] > 0
    assert facts["split"]["strategy"] == "time"


def test_a_node_table_makes_features_and_says_of_what(cli: Cli, links_csv: Path, tmp_path: Path) -> None:
    nodes = pd.DataFrame(
        {"id": [f"p{row:02}" for row in range(60)], "Team": [f"team {row // 12}" for row in range(60)]}
    )
    nodes["size"] = np.where(np.arange(60) % 7 == 0, np.nan, np.arange(60) / 7)
    nodes["serial"] = np.arange(60) + 1000
    nodes.to_csv(tmp_path / "n.csv", index=False)
    answer = cli("train", links_csv, "--nodes", tmp_path / "n.csv", "--out", tmp_path / "run", *SMALL)
    assert answer.code == 0
    assert (
        f"1 duplicate links; {tmp_path / 'n.csv'} gave 7 feature columns: 5 from the categories of 'Team', 2 from the "
        "numbers of 'size'; left out 'serial' (whole numbers that are all different, as of an id)."
    ) in answer.err
    card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    assert "- Dropped 2 self-loops and 1 duplicate links;" in card
    assert "the categories of 'Team'" in card
    info = ("data", "info", links_csv, "--nodes", tmp_path / "n.csv", "--json")
    facts = cli(*info).json
    assert facts["feature_columns"] == 7
    assert facts["node_table"] in answer.err
    assert "the categories of 'Team'" in " ".join(cli(*info[:-1]).out.split())
    assert "node_table" not in cli("data", "info", links_csv, "--json").json
    assert cli(*info, "--columns", "Team").json["feature_columns"] == 5
    assert cli(*info, "--columns", "size", "--columns", "serial").json["feature_columns"] == 3
    assert cli(*info, "--text", "Team").json["feature_columns"] == 5  # five words; "team" is in all of them
    wrong = cli(*info, "--columns", "Taem")
    assert wrong.code == 2
    assert "no column 'Taem' (columns); did you mean 'Team'?" in wrong.out


def test_data_info_says_why_a_graph_cannot_be_split(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("a,b\nx,y\n")
    answer = cli("data", "info", tmp_path / "l.csv", "--json")
    assert answer.code == 0
    assert "has 1 links" in answer.json["split"]["problem"]


def test_data_list(cli: Cli) -> None:
    named = {entry["name"] for entry in cli("data", "list", "--json").json["datasets"]}
    assert {"debian", "planted"} <= named
    assert "planted" in cli("data", "list").out


@pytest.mark.slow
def test_train_on_a_split_by_name(cli: Cli, links_csv: Path, tmp_path: Path) -> None:
    file = tmp_path / "split.npz"
    options = ("--valid-share", "0.1", "--metric", "hits@20", "--eval-negatives", "1", "--seed", "3")
    made = cli("data", "split", links_csv, "--out", file, *options, "--json").json
    assert made == {
        "file": str(file),
        "strategy": "random",
        "train": 320,
        "valid": 40,
        "test": 40,
        "metric": "hits@20",
        "reversed_links": made["reversed_links"],
        "dropped": 0,
    }
    with np.load(file, allow_pickle=False) as arrays:
        assert arrays["test_neg"].shape == (2, 1000)
        names = arrays["names"]
        links = np.concatenate([arrays[part] for part in ("train", "valid", "test")], axis=1)
    assert {(str(head), str(tail)) for head, tail in names[links].T} == set(community_links())
    trained = cli("train", file, "--out", tmp_path / "run", *SMALL, "--json").json
    assert trained["metric"] == "hits@20"
    rows = cli("recommend", tmp_path / "run", "--heads", "p05", "-k", "2", "--json").json["links"]
    assert rows[0]["head"] == "p05"
    assert rows[0]["tail"].startswith("p")
