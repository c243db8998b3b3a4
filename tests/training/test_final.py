"""What is learned from all links once the model was judged: it answers, and is never judged."""

import json
from pathlib import Path

import pytest
import torch

from headtail import LinkPredictor
from headtail.cli import main
from headtail.errors import ConfigError, DataError, HeadtailError, RunError
from headtail.evaluation.scoring import refuse_seen
from headtail.final import check_final, final_method
from headtail.graph.packed.graph import PackedGraph
from headtail.graph.store import fingerprint
from headtail.run_files import CARD_FILE, FINAL_CHECKPOINT_FILE, FINAL_FILE, TABLES_FILE
from headtail.training.checkpoint import save_model
from headtail.training.observer import Observer
from tiny_runs import predictor, small_graph


class Stop(Observer):
    """Interrupts training after some epochs."""

    def __init__(self, after: int) -> None:
        self.left = after

    def epoch_done(self, record: object) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def fitted(folder: Path | None = None, final: bool = True, **settings: object) -> LinkPredictor:
    model = predictor(epochs=3, answers="chosen", final=final, **settings)
    return model.fit(small_graph(dated=True), folder, observer=Observer())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("final") / "run"
    fitted(folder)
    return folder


def test_it_learns_every_link_for_the_best_number_of_epochs() -> None:
    model = fitted()
    final = model.answering.final
    assert final is not None
    assert final.epochs == model.best_epoch
    assert final.task.train_view is model.task.serving_view
    assert final.task.split.train.shape[1] == model.task.graph.links.shape[1]
    again = final_method(model.task, model.config, model.best_epoch)
    again.fit(None, Observer())
    assert all(torch.equal(value, again.weights()[name]) for name, value in final.weights().items())
    assert any(not torch.equal(value, model.method.weights()[name]) for name, value in final.weights().items())


def test_figures_are_those_from_before_and_answers_are_not() -> None:
    with_it, without = fitted(), fitted(final=False)
    for name, value in without.evaluate(heads_sampled=20).items():
        if name not in ("evaluation_seconds", "train_seconds", "all_nodes"):
            assert with_it.evaluate(heads_sampled=20)[name] == value
    pairs = [("p00", "p01"), ("p02", "p05")]
    assert with_it.predict(pairs, evidence="training").equals(without.predict(pairs, evidence="training"))
    assert not with_it.predict(pairs).equals(without.predict(pairs))
    exactly = [model.recommend(["p00"], k=5, exact=True) for model in (with_it, without)]
    assert not exactly[0].equals(exactly[1])


def test_it_is_never_judged() -> None:
    final = fitted().answering.final
    assert final is not None
    for view in (final.task.train_view, final.task.test_view):
        with pytest.raises((DataError, HeadtailError), match="held-out"):
            refuse_seen(final.scorer(view))


def test_a_run_keeps_it(run: Path, tmp_path: Path) -> None:
    fresh, opened = fitted(), LinkPredictor.load(run, device="cpu")
    assert opened.answering.final is not None
    wanted = fresh.recommend(k=4)
    assert opened.recommend(k=4).equals(wanted)
    assert "from before" in (run / CARD_FILE).read_text(encoding="utf-8")
    fresh.save(tmp_path / "saved")
    assert LinkPredictor.load(tmp_path / "saved", device="cpu").recommend(k=4).equals(wanted)
    (run / TABLES_FILE).rename(tmp_path / "kept")  # then it is encoded when it is asked
    try:
        assert LinkPredictor.load(run, device="cpu").recommend(k=4).equals(wanted)
    finally:
        (tmp_path / "kept").rename(run / TABLES_FILE)


def test_a_run_without_it_says_how_to_go_on(run: Path, tmp_path: Path) -> None:
    (run / FINAL_FILE).rename(tmp_path / "final")
    try:
        with pytest.raises(RunError, match=r"has not learned all links yet; go on with: headtail train .* --resume$"):
            LinkPredictor.load(run, device="cpu")
    finally:
        (tmp_path / "final").rename(run / FINAL_FILE)


def test_that_of_another_run_is_refused(run: Path, tmp_path: Path) -> None:
    content = (run / FINAL_FILE).read_bytes()
    task = LinkPredictor.load(run, device="cpu").task
    try:
        other = {"a": torch.ones(2)}
        for weights, stamp, told in (({}, "another", "another graph"), (other, fingerprint(task), "fit")):
            save_model(run, weights, stamp, 1, FINAL_FILE)
            with pytest.raises(RunError, match=told):
                LinkPredictor.load(run, device="cpu")
        (run / FINAL_FILE).write_bytes(content[: len(content) // 2])
        with pytest.raises(RunError, match="damaged"):
            LinkPredictor.load(run, device="cpu")
    finally:
        (run / FINAL_FILE).write_bytes(content)


def test_interrupted_it_goes_on_to_the_same_numbers(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    wanted = LinkPredictor.load(run, device="cpu")
    assert wanted.best_epoch > 1
    model = predictor(epochs=3, answers="chosen", final=True)
    watches = iter([Observer(), Stop(1)])
    monkeypatch.setattr("headtail.predictor.watching", lambda observer, folder: next(watches))
    with pytest.raises(KeyboardInterrupt, match=r"go on with --resume\.$"):
        model.fit(small_graph(dated=True), folder, observer=Observer())
    assert (folder / FINAL_CHECKPOINT_FILE).is_file()
    assert not (folder / FINAL_FILE).is_file()
    monkeypatch.undo()
    again = predictor(epochs=3, answers="chosen", final=True)
    again.fit(small_graph(dated=True), folder, resume=True, observer=Observer())
    assert LinkPredictor.load(folder, device="cpu").recommend(k=4).equals(wanted.recommend(k=4))


@pytest.mark.parametrize("method", ["symmetric", "smlp", "mf", "node2vec", "seal", "degnn"])
def test_every_method_that_learns_learns_all_links(method: str) -> None:
    model = fitted(method=method)
    assert model.answering.final is not None
    assert model.recommend(["p00"], k=3, exact=True)["rank"].tolist() == [1, 2, 3]


def test_a_training_that_was_stopped_answers_by_what_was_judged(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    model = predictor(epochs=3, answers="chosen", final=True).fit(small_graph(dated=True), folder, observer=Stop(1))
    assert (model.finished, model.answering.final) == (False, None)
    opened = LinkPredictor.load(folder, device="cpu")
    assert opened.recommend(["p00"], k=3).equals(model.recommend(["p00"], k=3))
    assert "from before" not in (folder / CARD_FILE).read_text(encoding="utf-8")


def test_a_packed_graph_and_what_learns_nothing() -> None:
    graph = object.__new__(PackedGraph)
    object.__setattr__(graph, "source", "links.ht")
    with pytest.raises(ConfigError, match=r"^links\.ht is packed"):
        check_final(graph, predictor(final=True).config)
    check_final(graph, predictor().config)
    assert predictor(method="ra", final=True).fit(small_graph(), observer=Observer()).answering.final is None


@pytest.mark.slow
def test_the_command_says_what_is_from_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    links = "".join(f"a{i},b{(i * j) % 23}\n" for i in range(40) for j in range(1, 6))
    (tmp_path / "links.csv").write_text("head,tail\n" + links, encoding="utf-8")
    run = str(tmp_path / "run")
    command = ["train", str(tmp_path / "links.csv"), "--out", run, "--preset", "fast", "--epochs", "2", "--final"]
    assert main([*command, "--drop-leaks"]) == 0
    assert "every figure above is from before" in capsys.readouterr().out.replace("\n", " ")
    assert main(["recommend", run, "--heads", "a1", "-k", "3", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["links"]) == 3
