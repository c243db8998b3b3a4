"""Asking for lists of tails: of whom, among whom, and how; what each question says of how it was answered."""

import io
from pathlib import Path

import pandas as pd
import pytest
from cli_case import Cli, community_links

from headtail import LinkPredictor
from headtail.errors import DataError
from headtail.serving import parts
from headtail.serving.told import how, told

FEW = ("p01", "p20", "p40", "p41")


@pytest.fixture(scope="module")
def model(run_folder: Path) -> LinkPredictor:
    return LinkPredictor.load(run_folder, device="cpu")


def stdin(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


# ---- questions ----


@pytest.mark.slow
def test_tails_that_are_asked_for(
    cli: Cli, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: LinkPredictor
) -> None:
    asked = ("recommend", run_folder, "--heads", "p33", "-k", "9", "--json")
    answer = cli(*asked, "--tails", ",".join(FEW))
    rows = answer.json["links"]
    assert {row["tail"] for row in rows} == set(FEW) - {tail for head, tail in community_links() if head == "p33"}
    assert f"among the {len(FEW)} tails that were allowed" in answer.err
    (tmp_path / "tails.txt").write_text("\n".join(FEW))
    assert cli(*asked, "--tails-file", tmp_path / "tails.txt").json["links"] == rows
    stdin(monkeypatch, "\n".join(FEW))
    assert cli(*asked, "--tails", "-").json["links"] == rows
    without = cli(*asked, "--tails", ",".join(FEW), "--exclude", FEW[0]).json["links"]
    assert {row["tail"] for row in without} == {row["tail"] for row in rows} - {FEW[0]}
    (tmp_path / "not.txt").write_text(FEW[0])
    assert cli(*asked, "--tails", ",".join(FEW), "--exclude-file", tmp_path / "not.txt").json["links"] == without
    wanted = model.recommend("p33", k=9, among=FEW, exclude=FEW[:1])
    assert [row["tail"] for row in without] == wanted["tail"].tolist()


def test_every_node_exactly(cli: Cli, run_folder: Path, model: LinkPredictor) -> None:
    answer = cli("recommend", run_folder, "--heads", "p33", "-k", "9", "--exact", "--json")
    wanted = model.recommend("p33", k=9, exact=True)
    assert [row["tail"] for row in answer.json["links"]] == wanted["tail"].tolist()
    assert (answer.json["exact"], answer.json["choice"]) == (True, "first scorer")
    assert "ranked by the method's own score, over all nodes" in answer.err
    some = cli("recommend", run_folder, "--heads", "p33", "--exact", "--tails", "p01,p02")
    assert "ranked by the method's own score, among the 2 tails that were allowed" in some.err


def test_an_answer_says_how_it_was_made(cli: Cli, run_folder: Path, model: LinkPredictor) -> None:
    answers = told(model.answering.plan)
    answer = cli("recommend", run_folder, "--heads", "p33", "--json")
    assert how(answers) in answer.err
    facts = ("choice", "exact", "candidates", "held")
    assert {name: answer.json[name] for name in facts} == {name: answers[name] for name in facts}
    assert answer.json["how"] == how(answers)


@pytest.mark.slow
def test_what_is_left_out(cli: Cli, run_folder: Path, model: LinkPredictor) -> None:
    asked = ("recommend", run_folder, "--heads", "p00", "-k", "59", "--json")
    counts = {name: len(cli(*asked, "--leave-out", name).json["links"]) for name in ("known", "training", "nothing")}
    known = sum(head == "p00" for head, _ in community_links())
    trained = int(model.task.train_view.out_rows.degrees[0])
    assert counts == {"known": 59 - known, "training": 59 - trained, "nothing": 59}
    assert len(cli(*asked).json["links"]) == counts["known"]
    for same in ((), ("--leave-out", "nothing")):
        assert len(cli(*asked, "--include-known", *same).json["links"]) == 59
    refused = cli(*asked, "--include-known", "--leave-out", "training")
    assert (refused.code, "--leave-out training does not; give one" in refused.json["error"]) == (2, True)


def test_answers_with_probabilities(cli: Cli, run_folder: Path, tmp_path: Path, model: LinkPredictor) -> None:
    asked = ("recommend", run_folder, "--heads", "p33", "-k", "4", "--probability")
    rows = cli(*asked, "--prior", "0.01", "--json").json["links"]
    pairs = [(row["head"], row["tail"]) for row in rows]
    wanted = model.predict(pairs, probability=True, prior=0.01)["probability"]
    assert [row["probability"] for row in rows] == pytest.approx(wanted.tolist())
    assert f"{rows[0]['probability']:.4g}" in cli(*asked, "--prior", "0.01").out
    cli(*asked, "--out", tmp_path / "p.csv")
    assert "probability" in pd.read_csv(tmp_path / "p.csv").columns


@pytest.mark.slow
def test_what_was_answered_to_another_question_is_not_taken_over(
    cli: Cli, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that is killed leaves parts; each other question must begin anew, the same one must go on."""
    monkeypatch.setattr(parts, "HEADS_PER_PART", 16)
    out = tmp_path / "links.csv"
    asked = ("recommend", run_folder, "-k", "3", "--out", out)
    written: list[Path] = []
    write = parts.write_table

    def recording(frames: object, path: Path) -> int:
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(path)
        return write(frames, path)  # type: ignore[arg-type]

    heads = ",".join(f"p{node:02}" for node in range(59, -1, -1))
    questions: dict[str, tuple[str, ...]] = {
        "plain": (),
        "exact": ("--exact",),
        "k": ("-k", "4"),
        "tails": ("--tails", ",".join(f"p{node:02}" for node in range(50))),
        "exclude": ("--exclude", "p07"),
        "leave out": ("--leave-out", "training"),
        "evidence": ("--evidence", "training"),
        "heads": ("--heads", heads),
        "probability": ("--probability",),
        "prior": ("--probability", "--prior", "0.1"),
    }
    keys = set()
    for question in questions.values():
        written.clear()
        with monkeypatch.context() as patch:
            patch.setattr(parts, "write_table", recording)
            assert cli(*asked, *question).code == 130
        assert len(written) == 2  # from the first part on
        keys.add((tmp_path / ".links.csv.parts" / parts.KEY_FILE).read_text())
    assert len(keys) == len(questions)
    last = questions["prior"]
    assert cli(*asked, *last).code == 0
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-k", "0"], "k must be at least 1, not 0"),
        (["--tails", "p01,p77"], "1 of 2 node names in among are not in the graph, the first is 'p77'"),
        (["--exclude", "p01,p77"], "the first is 'p77'"),
        (["--tails", "p01", "--exclude", "p01"], "among and exclude leave no tail to answer with"),
        (["--tails", " , "], "--tails names no node"),
        (["--tails", "p01", "--tails-file", "x"], "give --tails or --tails-file, not both"),
        (["--exclude-file", "none.txt"], "cannot read none.txt: No such file"),
        (["--heads", "-", "--tails", "-"], "only one list of names can be read from stdin"),
        (["--heads", "-", "--exclude-file", "-"], "only one list of names can be read from stdin"),
        (["--prior", "0.1"], "add --probability"),
        (["--probability", "--prior", "1"], "prior cannot be 1.0"),
    ],
)
def test_questions_that_cannot_be_answered(
    cli: Cli, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.setattr(parts, "HEADS_PER_PART", 16)  # as where there are many heads
    answer = cli("recommend", run_folder, *arguments, "--out", tmp_path / "r.csv", "--json")
    assert (answer.code, message in answer.json["error"]) == (2, True), answer
    assert list(tmp_path.iterdir()) == []


def test_a_failing_first_part_leaves_nothing(
    cli: Cli, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DataError("scores are not numbers.")

    monkeypatch.setattr(parts, "HEADS_PER_PART", 16)
    monkeypatch.setattr(LinkPredictor, "recommend_blocks", refuse)
    answer = cli("recommend", run_folder, "--out", tmp_path / "r.csv")
    assert (answer.code, list(tmp_path.iterdir())) == (2, [])
