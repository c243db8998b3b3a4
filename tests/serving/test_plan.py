"""Plans on paper: what is written is what is read, and what is damaged or foreign is refused in a sentence."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
from plans import learned_trees, quickly
from sights import SIGHTS

from headtail import LinkPredictor
from headtail.cli import main
from headtail.errors import RunError
from headtail.files import write_text
from headtail.run_files import ANSWERS_FILE
from headtail.serving.network import Network
from headtail.serving.plan import FIRST, AnswerPlan, Choice, Judged, Trees
from headtail.serving.trees_text import plain_trees
from headtail.training.observer import Observer
from tiny_runs import predictor, small_graph


@pytest.fixture(scope="module")
def text() -> str:
    return learned_trees()


@pytest.fixture(scope="module")
def plan(text: str) -> AnswerPlan:
    trees = {"second stage": Trees(["paths", "common", "candidates"], plain_trees(text, 3))}
    choice = Choice("second stage", FIRST, 0.25)
    table = [
        Judged(choice, {"recall@10": 0.5, "recall@50": 0.75, "mrr@50": 0.25}),
        Judged(Choice("paths"), {"recall@10": 0.25, "recall@50": 0.5, "mrr@50": 0.125}),
    ]
    budgets = {"paths": 20, "common": 0, "popular": 10}
    networks = {
        "network": Network(["paths", "back"], [0.5, 0.0], [1.0, 2.0], [[0.5] * 8, [1.0, -1.0]], [[0.0, 1.0], [0.25]])
    }
    return AnswerPlan(budgets, trees, choice, "second stage", networks, table, held={"few": 0.5})


# ---- trees ----


def test_plain_trees_say_what_all_trees_say(text: str) -> None:
    table = np.random.default_rng(1).random((200, 3)).astype(np.float32)
    whole = lightgbm.Booster(model_str=text)
    for most in (1, 3, 4, 9):
        plain = plain_trees(text, 3, most)
        assert plain_trees(plain, 3) == plain
        found = lightgbm.Booster(model_str=plain).predict(table, raw_score=True)
        wanted = whole.predict(table, raw_score=True, num_iteration=most)
        assert np.array_equal(np.asarray(found), np.asarray(wanted))


def test_trees_without_splits_are_trees() -> None:
    data = lightgbm.Dataset(np.zeros((20, 2)), np.arange(20) % 2, group=[10, 10])
    text = str(
        lightgbm.train({"objective": "rank_xendcg", "verbosity": -1, "num_threads": 1}, data, 3).model_to_string()
    )
    plain = plain_trees(text, 2)
    assert np.array_equal(np.asarray(lightgbm.Booster(model_str=plain).predict(np.zeros((2, 2)))), np.zeros(2))


DAMAGE: dict[str, Callable[[str], str]] = {
    "cut short": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "foreign": lambda text: "tree\nversion=v4\nend of trees",
    "a child that is not there": lambda text: first(text, "left_child", 0, "99"),
    "a leaf that is not there": lambda text: first(text, "right_child", 0, "-99"),
    "a leaf twice": lambda text: re.sub(r"right_child=.*", lambda m: m[0].rsplit(" ", 1)[0] + " -1", text, count=1),
    "a circle": lambda text: first(text, "left_child", 0, "0"),
    "a column that is not there": lambda text: first(text, "split_feature", 0, "3"),
    "a column before the first": lambda text: first(text, "split_feature", 0, "-1"),
    "a category": lambda text: first(text, "decision_type", 0, "1"),
    "categories": lambda text: text.replace("num_cat=0", "num_cat=7", 1),
    "more leaves than there are": lambda text: re.sub(r"num_leaves=\d+", "num_leaves=1000000000", text, count=1),
    "less than no leaves": lambda text: re.sub(r"num_leaves=\d+", "num_leaves=-3", text, count=1),
    "a threshold less": lambda text: re.sub(r"threshold=\S+ ", "threshold=", text, count=1),
    "no threshold": lambda text: re.sub(r"threshold=.*\n", "", text, count=1),
    "a leaf of no number": lambda text: first(text, "leaf_value", 0, "nan"),
    "an endless leaf": lambda text: first(text, "leaf_value", 0, "1e999"),
    "a word": lambda text: first(text, "threshold", 0, "e.e"),
}


def first(text: str, field: str, place: int, value: str) -> str:
    """Returns trees with another value at a place of a field of the first tree that has it."""
    line = re.search(rf"^{field}=(.*)$", text, flags=re.MULTILINE)
    assert line is not None
    values = line[1].split()
    values[place] = value
    return text.replace(line[0], f"{field}={' '.join(values)}", 1)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_trees_do_not_reach_what_dies_of_them(damage: str, text: str, plan: AnswerPlan) -> None:
    for trees in (text, plain_trees(text, 3)):
        assert DAMAGE[damage](trees) != trees
        with pytest.raises(ValueError, match=r"tree|number|end"):
            plain_trees(DAMAGE[damage](trees), 3)
    spoiled = replace(plan, trees={"second stage": Trees(["paths", "common", "back"], DAMAGE[damage](text))})
    with pytest.raises(RunError, match=r"^a plan is damaged \(.*\); train again\.$"):
        AnswerPlan.from_json(spoiled.as_json().encode(), "a plan")


def test_any_single_change_of_trees_is_refused_or_harmless(text: str) -> None:
    plain = plain_trees(text, 3, 2)
    random = np.random.default_rng(0)
    for _ in range(400):
        place, char = int(random.integers(len(plain))), "0123456789-. e\n="[random.integers(16)]
        try:
            changed = plain_trees(plain[:place] + char + plain[place + 1 :], 3)
        except ValueError:
            continue
        values = lightgbm.Booster(model_str=changed).predict(random.random((20, 3)), raw_score=True, num_threads=1)
        assert np.isfinite(np.asarray(values)).all()


# ---- plans ----


def test_what_is_written_is_read(plan: AnswerPlan) -> None:
    again = AnswerPlan.from_json(plan.as_json().encode(), "a plan")
    assert again == plan
    assert again.as_json() == plan.as_json()
    assert json.loads(plan.as_json())["budgets"] == {"paths": 20, "common": 0, "popular": 10}


def changed(plan: AnswerPlan, *path: str, value: Any) -> bytes:
    """Returns a plan with another value at a place."""
    tree = json.loads(plan.as_json())
    part = tree
    for name in path[:-1]:
        part = part[int(name) if isinstance(part, list) else name]
    part[int(path[-1]) if isinstance(part, list) else path[-1]] = value
    return json.dumps(tree).encode()


WRONG: list[tuple[tuple[str, ...], Any, str]] = [
    (("budgets",), {}, "ranks by what it does not hold"),
    (("budgets",), [], "is damaged"),
    (("budgets", "paths"), -1, "budgets.paths"),
    (("budgets", "paths"), 2.5, "budgets.paths"),
    (("budgets", "paths"), "20", "budgets.paths"),
    (("budgets", "paths"), True, "budgets.paths"),
    (("budgets", "tea leaves"), 10, "names the source 'tea leaves', which this version does not have"),
    (("budgets", "\n\x1b[31m" * 1000), 10, "names the source"),
    (("budgets",), {"second stage": 3}, "names the source 'second stage'"),
    (("choice", "one"), "tea leaves", "ranks by what it does not hold"),
    (("choice", "other"), "tea leaves", "ranks by what it does not hold"),
    (("choice", "one"), 7, "choice.one"),
    (("choice", "share"), 1.5, "choice.share"),
    (("choice", "share"), float("nan"), "choice.share"),
    (("choice", "share"), float("inf"), "choice.share"),
    (("choice", "share"), "0.5", "choice.share"),
    (("choice", "more"), 1, "choice.more"),
    (("shortlist",), FIRST, "ranks by what it does not hold"),  # the first scorer, of what it finds itself
    (("shortlist",), "tea leaves", "ranks by what it does not hold"),
    (("shortlist",), None, "shortlist"),
    (("trees",), {}, "ranks by what it does not hold"),
    (("trees", "second stage"), "text", "trees.second stage"),
    (("trees", "second stage", "columns"), [], "no column"),
    (("trees", "second stage", "columns"), ["paths"], "no column"),
    (("trees", "second stage", "columns"), "paths", "columns"),
    (("trees", "second stage", "columns", "0"), 3, "columns"),
    (("trees", "second stage", "text"), 3, "text"),
    (("networks", "network", "columns"), [], "other weights"),
    (("networks", "network", "columns"), ["paths"], "other weights"),
    (("networks", "network", "middle"), [0.5], "other weights"),
    (("networks", "network", "deviation"), [0.0, 1.0], "other weights"),
    (("networks", "network", "weights"), [], "other weights"),
    (("networks", "network", "weights"), [[0.5] * 8, [1.0]], "other weights"),
    (("networks", "network", "weights", "0"), [0.5] * 7, "other weights"),
    (("networks", "network", "weights", "0", "3"), float("nan"), "networks.network.weights"),
    (("networks", "network", "weights", "0", "3"), "0.5", "networks.network.weights"),
    (("networks", "network", "biases"), [], "other weights"),
    (("networks", "network", "biases", "1"), [0.25, 0.5], "other weights"),
    (("networks", "network", "more"), 1, "networks.network.more"),
    (("table",), {}, "table"),
    (("table", "0", "figures", "recall@10"), float("nan"), "recall@10"),
    (("table", "0", "choice", "share"), float("-inf"), "share"),
    (("held", "few"), float("nan"), "held.few"),
    (("held",), None, "held"),
    (("more",), 1, "more"),
]


@pytest.mark.parametrize(("path", "value", "told"), WRONG, ids=lambda part: repr(part)[:40])
def test_a_wrong_value_is_told_where_it_is(path: tuple[str, ...], value: Any, told: str, plan: AnswerPlan) -> None:
    with pytest.raises(RunError) as caught:
        AnswerPlan.from_json(changed(plan, *path, value=value), "a plan")
    assert told in str(caught.value)
    assert str(caught.value).startswith("a plan ")
    assert str(caught.value).endswith("train again.")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"\x80\x04N.", b"NaN"],
)
def test_what_is_no_plan_is_refused(content: bytes) -> None:
    with pytest.raises(RunError, match=r"^a plan is damaged \(.*\); train again\.$"):
        AnswerPlan.from_json(content, "a plan")


def test_a_plan_cut_short_anywhere_is_refused(plan: AnswerPlan) -> None:
    content = plan.as_json().encode()
    for length in range(0, len(content), 97):
        with pytest.raises(RunError):
            AnswerPlan.from_json(content[:length], "a plan")


@pytest.mark.parametrize(
    ("source", "sight", "why"),
    [("recent", "directed", "not dated"), ("alike", "dated", "no features"), ("back", "undirected", "no direction")],
)
def test_a_plan_for_another_graph_is_refused(source: str, sight: str, why: str) -> None:
    plan = AnswerPlan({source: 5}, {}, Choice(source), source)
    with pytest.raises(RunError, match=rf"ask the source '{source}', but .*{why}.*train again"):
        plan.candidates(SIGHTS[sight]())


# ---- with a run ----


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan") / "run"
    with pytest.MonkeyPatch.context() as patch:
        quickly(patch)
        predictor(epochs=1, answers="chosen").fit(small_graph(dated=True), folder, observer=Observer())
    return folder


@pytest.fixture
def run(trained_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_run, tmp_path / "run"))


def test_a_run_keeps_its_plan(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = LinkPredictor.load(run, "cpu")
    written = (run / ANSWERS_FILE).read_bytes()
    assert model.answering.plan == AnswerPlan.from_json(written, "a plan")
    wanted = model.recommend(k=4)
    quickly(monkeypatch)
    (run / ANSWERS_FILE).unlink()
    found_again = LinkPredictor.load(run, "cpu")
    assert found_again.recommend(k=4).equals(wanted)  # by a plan that is found anew
    assert found_again.answering.plan == model.answering.plan
    found_again.save(run.parent / "saved")
    assert (run.parent / "saved" / ANSWERS_FILE).read_bytes() == written


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content[:-40],
        lambda content: content.replace(b"left_child=", b"left_child=7", 1),
        lambda content: re.sub(rb'"paths": [0-9]+', b'"tea leaves": 9', content, count=1),
        lambda content: b"[]",
    ],
    ids=["cut short", "trees", "source", "foreign"],
)
def test_a_run_with_a_damaged_plan_is_refused(
    run: Path, spoil: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    path = run / ANSWERS_FILE
    before = path.read_bytes()
    path.write_bytes(spoil(before))
    assert path.read_bytes() != before
    with pytest.raises(RunError, match=rf"^{re.escape(str(path))} .*train again\.$"):
        LinkPredictor.load(run, "cpu")
    assert main(["recommend", str(run), "--heads", "p00", "--device", "cpu"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert [line for line in told.err.splitlines() if line.startswith("error: ")] == told.err.splitlines()[-1:]


def test_trees_that_read_what_the_graph_has_not_are_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees = Trees(["tea leaves", "paths"], plain_trees(learned_trees(2), 2))
    write_text(run / ANSWERS_FILE, AnswerPlan({"paths": 5}, {"a": trees}, Choice("a"), "a").as_json())
    assert main(["recommend", str(run), "--heads", "p00", "--device", "cpu"]) == 2
    assert "reads 'tea leaves', which this graph does not have" in capsys.readouterr().err
    write_text(run / ANSWERS_FILE, AnswerPlan({"siblings": 5}, {}, Choice("siblings"), "siblings").as_json())
    assert len(LinkPredictor.load(run, "cpu").recommend(["p00"], k=3)) == 3


@pytest.mark.parametrize("out", ["absolute", "relative", "dangling"])
def test_a_link_out_of_the_folder_is_refused(run: Path, out: str) -> None:
    target = run.parent / ANSWERS_FILE
    (run / ANSWERS_FILE).rename(target)
    (run / ANSWERS_FILE).symlink_to(target if out == "absolute" else f"../{ANSWERS_FILE}")
    if out == "dangling":
        target.unlink()
    with pytest.raises(RunError, match="leads out of the run folder"):
        LinkPredictor.load(run, "cpu")


def test_what_is_no_file_or_far_too_long_is_refused(run: Path) -> None:
    os.truncate(run / ANSWERS_FILE, 2**40)  # a file with a hole
    with pytest.raises(RunError, match="has more than 67,108,864 bytes, which no answers need"):
        LinkPredictor.load(run, "cpu")
    (run / ANSWERS_FILE).unlink()
    (run / ANSWERS_FILE).mkdir()
    with pytest.raises(RunError, match=r"cannot read .*directory"):
        LinkPredictor.load(run, "cpu")
