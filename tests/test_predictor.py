"""The front door: predict, recommend, evaluate, save, load."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from headtail import LinkPredictor
from headtail.config import make_config
from headtail.errors import ConfigError, DataError, HeadtailError, RunError
from headtail.evaluation.calibration import fit_calibration
from headtail.runs import portable_settings
from headtail.serving.questions import LeaveOut, Question
from headtail.training.observer import Observer
from tiny_runs import predictor, same_weights, small_graph, timeless, trained, weights


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return trained(epochs=2)


@pytest.fixture(scope="module")
def numbered() -> LinkPredictor:
    return trained(small_graph(named=False), epochs=1)


def links_of(model: LinkPredictor, *parts: str) -> set[tuple[str, str]]:
    """Returns links of the split by name."""
    split = model.task.split
    chosen = {"train": split.train, "valid": split.valid.positives, "test": split.test.positives}
    return {(f"p{h:02}", f"p{t:02}") for part in parts for h, t in chosen[part].T.tolist()}


# ---- predict ----


def test_predict_keeps_order_and_repeats(model: LinkPredictor) -> None:
    pairs = [("p59", "p00"), ("p03", "p04"), ("p00", "p59"), ("p03", "p04")]
    table = model.predict(pairs, evidence="training")
    assert list(table.columns) == ["head", "tail", "score"]
    assert list(zip(table["head"], table["tail"], strict=True)) == pairs
    assert table["score"][1] == table["score"][3]
    scores = model._scorer("training").score_rows(torch.arange(60), 0, 60)
    wanted = [float(scores[int(h[1:]), int(t[1:])]) for h, t in pairs]
    assert table["score"].tolist() == pytest.approx(wanted, abs=1e-5)


def test_predict_reads_the_first_two_columns_of_a_frame(model: LinkPredictor) -> None:
    frame = pd.DataFrame({"from": ["p01", "p02"], "to": ["p05", "p06"], "note": ["x", "y"]}, index=[7, 3])
    pd.testing.assert_frame_equal(model.predict(frame), model.predict([("p01", "p05"), ("p02", "p06")]))


def test_predict_reads_arrays_of_pairs(model: LinkPredictor, numbered: LinkPredictor) -> None:
    pairs = [(1, 5), (2, 6), (59, 0)]
    wanted = numbered.predict(pairs)
    assert wanted["head"].tolist() == [1, 2, 59]
    for asked in (torch.tensor(pairs), torch.tensor(pairs).T, np.array(pairs), np.array(pairs).T):
        pd.testing.assert_frame_equal(numbered.predict(asked), wanted)
    named = np.array([("p01", "p05"), ("p02", "p06"), ("p59", "p00")])
    pd.testing.assert_frame_equal(model.predict(named.T), model.predict([tuple(pair) for pair in named.tolist()]))
    with pytest.raises(DataError, match=r"pairs \[2, 2\] may be heads above tails"):
        numbered.predict(torch.tensor(pairs[:2]))
    with pytest.raises(DataError, match="the pairs are float32"):
        numbered.predict(torch.tensor(pairs).float())


def test_recommend_reads_arrays_of_heads(numbered: LinkPredictor) -> None:
    wanted = numbered.recommend([3, 59, 3], k=2)
    for asked in (torch.tensor([3, 59, 3]), np.array([3, 59, 3]), pd.Series([3, 59, 3]), pd.Index([3, 59, 3])):
        pd.testing.assert_frame_equal(numbered.recommend(asked, k=2), wanted)
        among = numbered.recommend(3, k=2, among=asked, exclude=asked[:1])
        assert among["tail"].tolist() == [59]
    pd.testing.assert_frame_equal(numbered.recommend(torch.tensor(59), k=2), numbered.recommend(59, k=2))
    assert numbered.recommend(torch.empty(0, dtype=torch.int64)).empty


def test_predict_nothing(model: LinkPredictor) -> None:
    table = model.predict([])
    assert list(table.columns) == ["head", "tail", "score"]
    assert len(table) == 0


@pytest.mark.parametrize("pair", [("p00", "p60"), ("p60", "p00")])
def test_predict_refuses_unknown_names(model: LinkPredictor, pair: tuple[str, str]) -> None:
    side = "heads" if pair[0] == "p60" else "tails"
    with pytest.raises(DataError, match=f"1 of 2 node names in the {side} are not in the graph, the first is 'p60'"):
        model.predict([("p01", "p02"), pair])


def test_more_pairs_than_a_block_are_scored_alike(model: LinkPredictor) -> None:
    pairs = [("p03", "p04")] * 2**16 + [("p05", "p06")]
    scores = model.predict(pairs)["score"]
    assert scores.iloc[[0, -1]].tolist() == pytest.approx(
        model.predict([("p03", "p04"), ("p05", "p06")])["score"].tolist(), abs=1e-6
    )
    assert scores.iloc[:-1].nunique() == 1


# ---- probabilities ----


def validation_oracle(model: LinkPredictor, asked: torch.Tensor) -> np.ndarray:
    """Calibrates with the scores of one table, read without blocks."""
    task = model.task
    table = model.method.scorer(task.train_view).score_rows(torch.arange(60), 0, 60)
    (heads, tails), negatives = task.split.valid.positives, task.split.valid.negatives
    assert negatives is not None
    others = table[heads[:, None], negatives] if task.metric == "mrr" else table[negatives[0], negatives[1]]
    return fit_calibration(table[heads, tails], others.reshape(-1)).probabilities(asked)


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 2},
        {"epochs": 1, "metric": "hits@20", "test_graph": "train+valid"},
        {"epochs": 1, "method": "mf"},
        {"method": "cn"},
        {"method": "pa"},
    ],
    ids=["aml", "hits", "mf", "cn", "pa"],
)
def test_probabilities_are_calibrated_on_the_validation_links(settings: dict[str, object], tmp_path: Path) -> None:
    fitted = trained(**settings)
    pairs = [(f"p{h:02}", f"p{t:02}") for h in range(0, 60, 7) for t in range(60) if h != t]
    plain, table = fitted.predict(pairs), fitted.predict(pairs, probability=True)
    assert list(table.columns) == ["head", "tail", "score", "probability"]
    pd.testing.assert_frame_equal(table[["head", "tail", "score"]], plain)
    wanted = validation_oracle(fitted, torch.tensor(plain["score"].to_numpy()))
    assert table["probability"].to_numpy() == pytest.approx(wanted, abs=1e-4)
    assert table["probability"].nunique() > 2
    rare = fitted.predict(pairs, probability=True, prior=0.01)["probability"]
    odds = wanted / (1 - wanted) / 99
    assert rare.to_numpy() == pytest.approx(odds / (1 + odds), rel=2e-3)
    fitted.save(tmp_path / "run")
    reread = LinkPredictor.load(tmp_path / "run", device="cpu")
    pd.testing.assert_frame_equal(reread.predict(pairs, probability=True), table)


def test_probabilities_are_those_of_the_last_fit() -> None:
    again = trained(epochs=1)
    pairs = [("p00", "p01"), ("p03", "p44")]
    again.predict(pairs, probability=True)
    again.fit(small_graph(seed=3), observer=Observer())
    fresh = trained(small_graph(seed=3), epochs=1)
    pd.testing.assert_frame_equal(again.predict(pairs, probability=True), fresh.predict(pairs, probability=True))


def test_probabilities_of_nothing(model: LinkPredictor) -> None:
    assert list(model.predict([], probability=True).columns) == ["head", "tail", "score", "probability"]


def test_reliability_is_judged_on_the_test_links(model: LinkPredictor) -> None:
    found = model.reliability()
    test = model.task.split.test
    assert test.negatives is not None
    assert sum(b.links for b in found.bins) == test.positives.shape[1]
    assert sum(b.negatives for b in found.bins) == test.negatives.numel()
    pairs = [(f"p{h:02}", f"p{t:02}") for h, t in test.positives.T.tolist()]
    rivals = [(f"p{h:02}", f"p{t:02}") for h, row in zip(test.positives[0], test.negatives, strict=True) for t in row]
    links, negatives = (
        model.predict(p, probability=True, evidence="training")["probability"].to_numpy() for p in (pairs, rivals)
    )
    assert found.brier == pytest.approx((((1 - links) ** 2).mean() + (negatives**2).mean()) / 2, abs=1e-6)


def test_validation_links_that_were_trained_on_calibrate_nothing(model: LinkPredictor) -> None:
    wrong = trained(epochs=1, protocol="val-as-train")
    for call in (lambda: wrong.predict([("p00", "p01")], probability=True), wrong.reliability):
        with pytest.raises(ConfigError, match="val-as-train trains on them; train with protocol clean or ogb"):
            call()
    with pytest.raises(ConfigError, match=r"prior cannot be 1\.5"):
        model.predict([("p00", "p01")], probability=True, prior=1.5)


# ---- recommend ----


@pytest.mark.parametrize(
    ("leave_out", "parts"), [("known", ("train", "valid", "test")), ("training", ("train",)), ("nothing", ())]
)
def test_recommend_ranks_all_but_what_is_left_out(
    model: LinkPredictor, leave_out: LeaveOut, parts: tuple[str, ...]
) -> None:
    left_out = links_of(model, *parts)
    names = [f"p{node:02}" for node in range(60)]
    table = model.recommend(k=59, leave_out=leave_out)
    found = set(zip(table["head"], table["tail"], strict=True))
    assert found == {(h, t) for h in names for t in names if h != t} - left_out
    assert len(found) == len(table)
    for _head, rows in table.groupby("head"):
        assert rows["rank"].tolist() == list(range(1, len(rows) + 1))
        assert rows["score"].is_monotonic_decreasing
    wanted = model.predict(table[["head", "tail"]])["score"]
    assert np.allclose(table["score"], wanted, atol=1e-5)


def test_recommend_takes_one_name_several_or_all(model: LinkPredictor) -> None:
    one, two = model.recommend("p07", k=3), model.recommend(["p30", "p07"], k=3)
    assert one["head"].tolist() == ["p07"] * 3
    assert two["head"].tolist() == ["p30"] * 3 + ["p07"] * 3
    assert two["tail"].tolist()[3:] == one["tail"].tolist()
    assert len(model.recommend(k=3)) == 180
    blocks = list(model.recommend_blocks(("p30", "p07"), Question(3)))
    pd.testing.assert_frame_equal(pd.concat(blocks, ignore_index=True), two)


def test_recommend_by_number(numbered: LinkPredictor) -> None:
    table = numbered.recommend(7, k=2)
    assert table["head"].tolist() == [7, 7]
    pd.testing.assert_frame_equal(numbered.recommend("7", k=2), table)


@pytest.mark.parametrize(
    ("heads", "k", "message"),
    [
        ("p00", 60, "k = 60 tails were asked for, but a head has only 59 other nodes; lower k"),
        ("p00", 0, "k must be at least 1"),
        ("p0", 3, "1 of 1 node names in the heads are not in the graph, the first is 'p0'; did you mean 'p0"),
        (["p00", "x"], 3, "1 of 2 node names in the heads are not in the graph, the first is 'x'"),
    ],
)
def test_recommend_refuses_what_it_cannot_answer(
    model: LinkPredictor, heads: str | list[str], k: int, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        model.recommend(heads, k)


def test_recommend_takes_a_name_from_its_own_answer(numbered: LinkPredictor) -> None:
    best = numbered.recommend(7, k=1)["tail"].iloc[0]
    assert numbered.recommend(best, k=1)["head"].tolist() == [best]


def test_recommend_for_no_heads_is_empty(model: LinkPredictor) -> None:
    table = model.recommend([], k=3)
    assert list(table.columns) == ["head", "tail", "score", "rank"]
    assert len(table) == 0


@pytest.mark.parametrize("verb", ["evaluate", "recommend"])
def test_a_wrong_word_is_told(model: LinkPredictor, verb: str) -> None:
    with pytest.raises(HeadtailError, match="train"):
        model.evaluate("training") if verb == "evaluate" else model.recommend("p00", 3, "train")  # type: ignore


# ---- evaluate ----


def test_evaluate_says_what_was_measured(model: LinkPredictor) -> None:
    result = model.evaluate()
    assert list(result)[:4] == ["split", "metric", "protocol", "mrr"]
    assert result["protocol"] == "clean"
    assert (result["split"], result["metric"], result["epochs"]) == ("test", "mrr", 2)
    assert result["train_seconds"] == pytest.approx(sum(record["seconds"] for record in model.history))
    valid = model.evaluate("valid")
    assert valid["split"] == "valid"
    assert valid["mrr"] == pytest.approx(max(record["valid_mrr"] for record in model.history))


@pytest.mark.parametrize("settings", [{}, {"test_graph": "train+valid"}, {"method": "ra"}])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("part", ["valid", "test"])
def test_evaluate_says_what_lists_are_worth(settings: dict[str, str], directed: bool, part: str) -> None:
    """Counted on the whole table of scores; the oracle of tests/evaluation tries more graphs."""
    model = trained(small_graph(directed), epochs=1, **settings)
    result = model.evaluate(part, heads_sampled=25)
    task, figures = model.task, result["all_nodes"]
    assert result["ranked_among"] == {"negatives": 20, "shared": False}
    scorer = model._scorer("training") if part == "test" else model.method.scorer(task.train_view)
    scores = scorer.score_rows(torch.arange(60), 0, 60)
    parts = (task.split.train, task.split.valid.positives, task.split.test.positives)
    linked = torch.zeros(3, 60, 60, dtype=torch.bool)
    for matrix, links in zip(linked, parts, strict=True):
        matrix[links[0], links[1]] = True
        matrix |= False if directed else matrix.T.clone()
    train, valid, test = linked
    wanted = test if part == "test" else valid
    rivals = ~(train | wanted | torch.eye(60, dtype=torch.bool) | (valid if part == "test" else False))
    heads = wanted.any(dim=1).nonzero().squeeze(1)
    heads = np.random.default_rng(0).choice(heads.numpy(), min(25, len(heads)), replace=False)
    ranks = []
    for head in heads.tolist():
        for tail in wanted[head].nonzero().squeeze(1).tolist():
            level = (scores[head] == scores[head, tail]) & (torch.arange(60) < tail)
            ranks.append(1 + int((rivals[head] & ((scores[head] > scores[head, tail]) | level)).sum()))
    found = np.array(ranks)
    assert (figures["heads"], figures["links"]) == (len(heads), len(found))
    assert figures["recall@10"] == pytest.approx((found <= 10).mean())
    assert figures["recall@50"] == pytest.approx((found <= 50).mean())
    assert figures["mrr@50"] == pytest.approx(np.where(found <= 50, 1 / found, 0).mean())
    assert "all_nodes" not in model.evaluate(part, heads_sampled=0)


def test_validation_links_may_be_seen_in_the_test() -> None:
    graph = small_graph()
    train, more = (trained(graph, epochs=1, test_graph=seen) for seen in ("train", "train+valid"))
    assert same_weights(weights(train), weights(more))
    assert timeless(train.evaluate("valid")) == timeless(more.evaluate("valid"))
    one, other = (m._scorer("training").score_rows(torch.arange(60), 0, 60) for m in (train, more))
    assert not torch.allclose(one, other)


def test_fitting_again_starts_anew(model: LinkPredictor) -> None:
    other = predictor(epochs=2)
    other.fit(small_graph(seed=3), observer=Observer())
    other.predict([("p00", "p01")])
    other.fit(small_graph(), observer=Observer())
    assert len(other.history) == 2
    assert same_weights(weights(other), weights(model))
    pd.testing.assert_frame_equal(other.recommend(k=3), model.recommend(k=3))


# ---- settings ----


def test_an_untrained_predictor_says_so() -> None:
    for call in (lambda p: p.evaluate(), lambda p: p.predict([]), lambda p: p.recommend("x"), lambda p: p.save("x")):
        with pytest.raises(HeadtailError, match=r"not trained yet; call fit\(graph\) or LinkPredictor\.load"):
            call(LinkPredictor())
    assert not Path("x").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "amls"}, "unknown method 'amls'; did you mean 'aml'"),
        ({"encoder": "gatt"}, "unknown encoder 'gatt'; did you mean 'gat'"),
        ({"batches": "row"}, "did you mean 'rows'"),
        ({"neighbours": "bnss"}, "did you mean 'bns'"),
        ({"negatives": "tails"}, "did you mean 'tail'"),
        ({"objective": "cross-entropy"}, "did you mean 'cross_entropy'"),
        ({"split": "timed"}, "did you mean 'time'"),
        ({"metric": "mmr"}, "mrr"),
        ({"hiden": 3}, "unknown setting 'hiden'; did you mean 'hidden'"),
    ],
)
def test_a_typo_is_told_before_any_data_is_read(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LinkPredictor(**settings)


def test_configuration_by_object_file_or_settings(tmp_path: Path) -> None:
    config = make_config("paper", settings={"epochs": 7})
    assert LinkPredictor(config=config).config == config
    (tmp_path / "settings.yaml").write_text("epochs: 7\n")
    assert LinkPredictor("paper", tmp_path / "settings.yaml").config == config
    assert LinkPredictor("paper", tmp_path / "settings.yaml", epochs=9).config.training.epochs == 9
    with pytest.raises(HeadtailError, match="either a complete Config or single settings"):
        LinkPredictor(config=config, epochs=9)


def test_the_device_does_not_decide_the_numbers() -> None:
    settings = [portable_settings(predictor(device=device).config) for device in ("cpu", "cuda", "auto")]
    assert len(set(settings)) == 1
    assert portable_settings(predictor(seed=1).config) != settings[0]


# ---- runs on disk ----


def test_a_saved_run_answers_as_before(model: LinkPredictor, tmp_path: Path) -> None:
    model.save(tmp_path / "run")
    reread = LinkPredictor.load(tmp_path / "run", device="cpu")
    pd.testing.assert_frame_equal(reread.recommend(k=5), model.recommend(k=5))
    assert timeless(reread.evaluate()) == timeless(model.evaluate())
    assert reread.history == model.history
    assert portable_settings(reread.config) == portable_settings(model.config)
    assert {path.suffix for path in (tmp_path / "run").iterdir()} == {
        ".yaml",
        ".jsonl",
        ".md",
        ".safetensors",
        ".parquet",
    }


def test_what_is_no_finished_run_is_refused(model: LinkPredictor, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is not a run folder: it has no config\.yaml"):
        LinkPredictor.load(tmp_path / "nowhere")
    model.save(tmp_path / "run")
    with pytest.raises(HeadtailError, match="already holds a run; go on with --resume, replace it with --overwrite"):
        model.save(tmp_path / "run")
    trained(small_graph(seed=1), epochs=1).save(tmp_path / "other")
    (tmp_path / "other" / "model.safetensors").replace(tmp_path / "run" / "model.safetensors")
    with pytest.raises(RunError, match="was trained on another graph than the one in"):
        LinkPredictor.load(tmp_path / "run")
    with pytest.raises(RunError, match="no finished model yet"):
        LinkPredictor.load(tmp_path / "other")


def test_a_loaded_run_knows_that_it_was_finished(model: LinkPredictor, tmp_path: Path) -> None:
    model.save(tmp_path / "run")
    LinkPredictor.load(tmp_path / "run", device="cpu").save(tmp_path / "copy")
    assert (tmp_path / "copy" / "README.md").read_text() == (tmp_path / "run" / "README.md").read_text()
