"""What a run keeps for its answers: opened from it, a run answers bit by bit as one that is encoded, and at once."""

import errno
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

import headtail.files
import headtail.predictor
from headtail import LinkPredictor, load
from headtail.baselines.mf import EmbeddingLinks
from headtail.cli import main
from headtail.errors import DataError, HeadtailError, RunError
from headtail.files import read_mapped, read_tensors, write_mapped, write_tensors
from headtail.graph.graph import Graph
from headtail.graph.packed.pack import pack
from headtail.graph.paths import ShortPaths
from headtail.nn.models import AmlModel, SmlpModel, SymmetricModel
from headtail.run_files import TABLES_FILE
from headtail.serving import sources
from headtail.training.observer import Observer
from tiny_runs import Stop, predictor, small_graph, trained

EVIDENCE = "degrees,common,paths,similarity,ages"
PLANNED = {"epochs": 1, "answers": "chosen", "evidence": EVIDENCE}
HEADS = ["p00", "p17", "p42"]
PAIRS = [("p00", "p01"), ("p17", "p42"), ("p59", "p03")]
# What a graph is like, and settings: every kind of table that is kept, and methods that keep none of their own.
CASES: dict[str, tuple[dict[str, bool], dict[str, Any]]] = {
    "directed, dated": ({"dated": True}, {}),
    "undirected": ({"directed": False}, {}),
    "structure beside features": ({}, {"structure": 4, "hidden": 6}),
    "rows are tails": ({}, {"reverse": True}),
    "symmetric": ({}, {"method": "symmetric", "evidence": "none"}),
    "smlp": ({"directed": False, "dated": True}, {"method": "smlp"}),
    "mf": ({}, {"method": "mf", "evidence": "none"}),
    "node2vec": ({"directed": False}, {"method": "node2vec", "evidence": "none"}),
    "degnn": ({}, {"method": "degnn", "evidence": "none"}),
    "all nodes are scored": ({}, {"answers": "exact"}),
}


def written(folder: Path, graph: Graph | None = None, **settings: Any) -> Path:
    """Trains in silence and returns the run folder."""
    predictor(**PLANNED | settings).fit(graph or small_graph(), folder, observer=Observer(), heads_sampled=9)
    return folder


def answers(run: Path) -> Mapping[str, pd.DataFrame]:
    """Returns what a run answers, each question to a run that was just opened."""
    questions: dict[str, Callable[[LinkPredictor], pd.DataFrame]] = {
        "default": lambda model: model.recommend(HEADS, k=5),
        "all": lambda model: model.recommend(k=3),
        "exact": lambda model: model.recommend(HEADS, k=50, exact=True),
        "training": lambda model: model.recommend(HEADS, k=5, evidence="training"),
        "predict": lambda model: model.predict(PAIRS),
        "probability": lambda model: model.predict(PAIRS, probability=True),
    }
    return {name: ask(LinkPredictor.load(run, "cpu")) for name, ask in questions.items()}


def same(found: Mapping[str, pd.DataFrame], wanted: Mapping[str, pd.DataFrame]) -> None:
    assert found.keys() == wanted.keys()
    for question, frame in wanted.items():
        pd.testing.assert_frame_equal(found[question], frame, check_exact=True, obj=question)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("whole") / "run", small_graph(dated=True))


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


# ---- opened is encoded ----


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_opened_from_what_was_kept_equals_encoded_bit_by_bit(case: str, tmp_path: Path) -> None:
    kind, settings = CASES[case]
    run = written(tmp_path / "run", small_graph(**kind), **settings)
    opened = answers(run)
    (run / TABLES_FILE).unlink()
    same(opened, answers(run))


def test_the_tables_themselves_are_equal(run: Path) -> None:
    opened = LinkPredictor.load(run, "cpu").answering.asked().state()
    (run / TABLES_FILE).unlink()
    encoded = LinkPredictor.load(run, "cpu").answering.asked().state()
    assert opened.keys() == encoded.keys() >= {"scorer/heads", "scorer/tails", "scorer/evidence/paths/shared/col"}
    assert all(torch.equal(opened[name], encoded[name]) for name in encoded)


def test_what_was_kept_is_not_made_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = answers(run)

    def made(*_: object, **__: object) -> None:
        raise AssertionError("it was made again")

    for home, name in (
        *((model, "represent_all") for model in (AmlModel, SmlpModel, SymmetricModel)),
        (EmbeddingLinks, "pair_scorer"),
        (ShortPaths, "build"),
        (sources, "item_table"),
    ):
        monkeypatch.setattr(home, name, made)
    model = LinkPredictor.load(run, "cpu")
    pd.testing.assert_frame_equal(model.recommend(HEADS, k=5), wanted["default"])
    pd.testing.assert_frame_equal(model.recommend(HEADS, k=50, exact=True), wanted["exact"])
    pd.testing.assert_frame_equal(model.predict(PAIRS), wanted["predict"])
    with pytest.raises(AssertionError, match="made again"):
        model.recommend(HEADS, evidence="training")


def test_saved_again_it_is_the_same_file(run: Path, tmp_path: Path) -> None:
    LinkPredictor.load(run, "cpu").save(tmp_path / "copy", heads_sampled=9)
    assert (tmp_path / "copy" / TABLES_FILE).read_bytes() == (run / TABLES_FILE).read_bytes()


def test_a_run_that_is_replaced_goes_on_answering(run: Path) -> None:
    model = LinkPredictor.load(run, "cpu")
    wanted = model.recommend(HEADS, k=5)
    model = LinkPredictor.load(run, "cpu")
    written(run.parent / "other", small_graph(seed=1, dated=True))
    (run.parent / "other" / TABLES_FILE).replace(run / TABLES_FILE)
    pd.testing.assert_frame_equal(model.recommend(HEADS, k=5), wanted)


def test_half_precision_is_kept_as_it_is(run: Path) -> None:
    """A GPU encodes in bf16; opened on a CPU, such tables are half as large and scored as they are."""
    tensors, facts = read_mapped(run / TABLES_FILE, "")
    halves = {name: t.bfloat16() if name in ("scorer/heads", "scorer/tails") else t for name, t in tensors.items()}
    write_mapped(run / "half", halves, facts)
    full = LinkPredictor.load(run, "cpu").predict(PAIRS)["score"]
    (run / "half").replace(run / TABLES_FILE)
    model = LinkPredictor.load(run, "cpu")
    assert model.answering.asked().scorer.heads.dtype == torch.bfloat16  # type: ignore[attr-defined]
    assert model.predict(PAIRS)["score"].to_numpy() == pytest.approx(full.to_numpy(), rel=0.05, abs=0.05)


@pytest.mark.slow
def test_packed_graphs_keep_what_the_training_links_say(tmp_path: Path) -> None:
    frame = pd.DataFrame(small_graph(named=False).links.T.numpy(), columns=["from", "to"])
    frame.to_csv(tmp_path / "links.csv", index=False)
    pack([tmp_path / "links.csv"], tmp_path / "packed")
    run = written(tmp_path / "run", load(tmp_path / "packed"))
    assert read_mapped(run / TABLES_FILE, "")[1]["evidence"] == "training"
    opened = LinkPredictor.load(run, "cpu").recommend([0, 17], k=5)
    shared = LinkPredictor.load(run, "cpu").recommend([0, 17], k=5, exact=True)
    (run / TABLES_FILE).unlink()
    pd.testing.assert_frame_equal(LinkPredictor.load(run, "cpu").recommend([0, 17], k=5), opened, check_exact=True)
    again = LinkPredictor.load(run, "cpu").recommend([0, 17], k=5, exact=True)
    pd.testing.assert_frame_equal(again, shared, check_exact=True)


def test_what_learns_nothing_keeps_nothing(tmp_path: Path) -> None:
    model = trained(method="ra")
    model.save(tmp_path / "run")
    assert not (tmp_path / "run" / TABLES_FILE).exists()


# ---- what does not fit ----


def test_of_another_version_or_of_other_settings_is_not_read(run: Path) -> None:
    (run / TABLES_FILE).rename(run / "kept")
    wanted = LinkPredictor.load(run, "cpu").recommend(HEADS, k=5)
    tensors, facts = read_mapped(run / "kept", "")
    foreign = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    for change in ({"version": 0}, {"settings": "others"}, {"evidence": "training"}, {"more": 1}):
        write_mapped(run / TABLES_FILE, foreign, facts | change)
        pd.testing.assert_frame_equal(LinkPredictor.load(run, "cpu").recommend(HEADS, k=5), wanted)
    (run / "kept").replace(run / TABLES_FILE)
    changed = (run / "config.yaml").read_text().replace("normalisation: row", "normalisation: symmetric")
    (run / "config.yaml").write_text(changed)
    opened = LinkPredictor.load(run, "cpu").predict(PAIRS)
    (run / TABLES_FILE).unlink()
    pd.testing.assert_frame_equal(LinkPredictor.load(run, "cpu").predict(PAIRS), opened, check_exact=True)


def test_of_another_run_is_refused(run: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "other", small_graph(dated=True), seed=1)
    shutil.copy(other / TABLES_FILE, run)
    with pytest.raises(RunError, match=r"answers\.safetensors is not of the model in .*delete it"):
        LinkPredictor.load(run, "cpu")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.999])
def test_cut_short_it_is_refused(run: Path, share: float) -> None:
    content = (run / TABLES_FILE).read_bytes()
    (run / TABLES_FILE).write_bytes(content[: int(share * len(content))])
    with pytest.raises(RunError, match=r"answers\.safetensors is damaged") as caught:
        LinkPredictor.load(run, "cpu")
    assert "\n" not in str(caught.value)


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "scorer/heads": lambda t: t[:, 1:],
    "scorer/tails": lambda t: t.long(),
    "scorer/evidence/paths/share": lambda t: t[1:],
    "scorer/evidence/paths/shared/row_ptr": lambda t: t.flip(0),
    "scorer/evidence/paths/shared/col": lambda t: t + 60,
    "scorer/evidence/paths/shared/weight": lambda t: t[:-1],
    "sources/paths/col": lambda t: t - 60,
    "sources/paths/row_ptr": lambda t: t + 1,
}


@pytest.mark.parametrize("name", CHANGES)
def test_wrong_tables_are_refused(run: Path, name: str) -> None:
    tensors, facts = read_mapped(run / TABLES_FILE, "")
    write_mapped(run / "changed", tensors | {name: CHANGES[name](tensors[name])}, facts)
    (run / "changed").replace(run / TABLES_FILE)
    model = LinkPredictor.load(run, "cpu")  # what is large is looked at when it is needed
    with pytest.raises(RunError, match=r"answers\.safetensors is damaged \(.*\); restore it .* or delete it") as caught:
        model.recommend(HEADS) if name.startswith("sources/") else model.predict(PAIRS)
    assert "\n" not in str(caught.value)


def test_the_command_says_so_in_a_sentence(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensors, facts = read_mapped(run / TABLES_FILE, "")
    write_mapped(run / "changed", tensors | {"sources/paths/col": tensors["sources/paths/col"] - 60}, facts)
    (run / "changed").replace(run / TABLES_FILE)
    assert main(["recommend", str(run), "--heads", "p00,p01", "--device", "cpu"]) == 2
    told = capsys.readouterr()
    assert "answers.safetensors is damaged" in " ".join(told.err.split())
    assert told.out == ""


def test_numbers_that_are_none_are_refused(run: Path) -> None:
    tensors, facts = read_mapped(run / TABLES_FILE, "")
    write_mapped(run / "changed", tensors | {"scorer/heads": tensors["scorer/heads"] * torch.nan}, facts)
    (run / "changed").replace(run / TABLES_FILE)
    with pytest.raises(DataError, match="NaN"):
        LinkPredictor.load(run, "cpu").recommend(HEADS, k=5, exact=True)


def test_facts_that_are_none_are_refused(run: Path) -> None:
    tensors, _ = read_tensors(run / TABLES_FILE)
    write_tensors(run / TABLES_FILE, tensors, {"version": 1})
    with pytest.raises(RunError, match="is not of the model in"):
        LinkPredictor.load(run, "cpu")


def test_parts_that_are_missing_are_made(run: Path) -> None:
    wanted = answers(run)
    tensors, facts = read_mapped(run / TABLES_FILE, "")
    for left_out in ("scorer/heads", "scorer/evidence", "sources/paths", "sources"):
        left = {name: tensor for name, tensor in tensors.items() if not name.startswith(left_out)}
        write_mapped(run / "fewer", left, facts)
        (run / "fewer").replace(run / TABLES_FILE)
        pd.testing.assert_frame_equal(LinkPredictor.load(run, "cpu").recommend(HEADS, k=5), wanted["default"])


# ---- written whole or not at all ----


def test_a_full_disk_leaves_a_run_that_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(headtail.files, "struct", SimpleNamespace(pack=full))
    with pytest.raises(HeadtailError, match=r"answers\.safetensors: the disk is full"):
        written(tmp_path / "run")
    monkeypatch.undo()
    assert not list((tmp_path / "run").glob("*answers.safetensors*"))
    assert len(LinkPredictor.load(tmp_path / "run", "cpu").recommend(HEADS, k=5)) == 15


def test_other_weights_are_never_answered_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is killed after it wrote new weights: what it kept of the ones before is gone then."""
    settings = PLANNED | {"epochs": 3, "evaluate_every": 3}
    predictor(**settings).fit(small_graph(), tmp_path / "run", observer=Stop(2))
    assert (tmp_path / "run" / TABLES_FILE).is_file()
    model = (tmp_path / "run" / "model.safetensors").read_bytes()

    def killed(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(headtail.predictor, "keep_answers", killed)
    with pytest.raises(MemoryError):
        predictor(**settings).fit(small_graph(), tmp_path / "run", resume=True, observer=Observer())
    assert (tmp_path / "run" / "model.safetensors").read_bytes() != model
    assert not (tmp_path / "run" / TABLES_FILE).exists()
    assert len(LinkPredictor.load(tmp_path / "run", "cpu").recommend(HEADS, k=5)) == 15


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of a process")
def test_killed_while_it_is_written_it_is_not_there_or_whole(run: Path) -> None:
    wanted = LinkPredictor.load(run, "cpu").recommend(HEADS, k=5)
    tensors, facts = read_tensors(run / TABLES_FILE)
    tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith("~")}
    tensors["more"] = torch.zeros(2**22)  # so that writing takes a while
    found = set()
    for number in range(12):
        (run / TABLES_FILE).unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            write_mapped(run / TABLES_FILE, tensors, facts)
            signal.pause()
        time.sleep(0.004 * number)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found.add((run / TABLES_FILE).is_file())
        opened = LinkPredictor.load(run, "cpu").recommend(HEADS, k=5)
        pd.testing.assert_frame_equal(opened, wanted, check_exact=True)
    assert False in found or sys.platform != "linux"
