"""Run folders: what is written when, what survives a full disk, and what the model card says."""

import errno
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from safetensors import SafetensorError

import headtail.files
from headtail import LinkPredictor
from headtail.card import model_card
from headtail.errors import HeadtailError, RunError
from headtail.files import read_tensors
from headtail.run_files import ANSWERS_FILE, FINAL_CHECKPOINT_FILE, FINAL_FILE, RUN_FILES
from headtail.runs import Journal, read_history
from headtail.training.observer import Observer
from tiny_runs import Stop, predictor, small_graph, timeless

COUNTERS = {"gnn_node_encodings", "blocked_node_encodings", "mlp_node_encodings", "pairs_scored"}


def lines_of(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    predictor(epochs=2).fit(small_graph(), tmp_path / "run", observer=Observer())
    return tmp_path / "run"


def test_metrics_are_a_line_per_epoch_and_the_test_result(run: Path) -> None:
    first, second, result = lines_of(run)
    for epoch, line in enumerate((first, second), 1):
        assert line["epoch"] == epoch
        wanted = {"loss", "learning_rate", "seconds", "links", "links_per_second", "valid_mrr", "valid_hits@10"}
        assert wanted | COUNTERS <= line.keys()
    assert result["split"] == "test"
    again = LinkPredictor.load(run, device="cpu").evaluate()
    assert timeless(result) == timeless(again)
    assert set(RUN_FILES) - {ANSWERS_FILE, FINAL_FILE, FINAL_CHECKPOINT_FILE} == {
        path.name for path in run.iterdir()
    }  # which has no plan to keep


def test_files_are_up_to_date_after_every_epoch(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    class Look(Observer):
        def epoch_done(self, record: object) -> None:
            facts = read_tensors(tmp_path / "run" / "checkpoint.safetensors")[1]
            seen.append((len(lines_of(tmp_path / "run")), int(str(facts["epoch"]))))

    predictor(epochs=3).fit(small_graph(), tmp_path / "run", observer=Look())
    assert seen == [(1, 1), (2, 2), (3, 3)]


def test_a_journal_passes_everything_on(tmp_path: Path) -> None:
    heard = Stop(0)
    journal = Journal(heard, tmp_path)
    journal.started(3, 0, "mrr")
    journal.batch_done(1, 1, 1, 5, 0.5)
    journal.epoch_done({"epoch": 1, "loss": 0.5, "seconds": 0.1})
    journal.finished()
    assert heard.calls == ["started 0/3 mrr", "finished"]
    assert heard.records == lines_of(tmp_path) == [{"epoch": 1, "loss": 0.5, "seconds": 0.1}]
    assert read_history(tmp_path) == [{"epoch": 1, "loss": 0.5, "seconds": 0.1}]


def test_a_damaged_journal_is_told(run: Path) -> None:
    (run / "metrics.jsonl").write_text('{"epoch": 1, "loss"')
    with pytest.raises(RunError, match=r"metrics\.jsonl is missing or damaged"):
        LinkPredictor.load(run)


def full_disk(monkeypatch: pytest.MonkeyPatch, name: str, error: Exception) -> None:
    """Lets the disk be full whenever a tensor file of that name is written."""
    save: Callable[..., None] = headtail.files.save_file

    def refuse(tensors: object, path: Path, **rest: object) -> None:
        if name in Path(path).name:
            Path(path).write_bytes(b"half")
            raise error
        save(tensors, path, **rest)

    monkeypatch.setattr(headtail.files, "save_file", refuse)


ERRORS = [OSError(errno.ENOSPC, "No space left on device"), SafetensorError("I/O error: No space left on device")]


@pytest.mark.parametrize("error", ERRORS, ids=["os", "safetensors"])
def test_overwrite_keeps_the_old_run_if_the_new_one_cannot_begin(
    run: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    full_disk(monkeypatch, "graph", error)
    for write in (
        lambda: predictor(epochs=1).fit(small_graph(seed=1), run, overwrite=True, observer=Observer()),
        lambda: LinkPredictor.load(run, device="cpu").save(run, overwrite=True),
    ):
        with pytest.raises(HeadtailError, match="the disk is full, free some space"):
            write()
        assert {path.name: path.read_bytes() for path in run.iterdir()} == before
        assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_overwrite_replaces_all_of_the_old_run(run: Path) -> None:
    predictor(epochs=1).fit(small_graph(seed=1), run, overwrite=True, observer=Observer())
    assert len(lines_of(run)) == 2
    pd.testing.assert_index_equal(
        pd.Index(pd.read_parquet(run / "nodes.parquet")["name"]), small_graph().names.index, check_names=False
    )
    assert LinkPredictor.load(run, device="cpu").config.training.epochs == 1


def test_overwrite_leaves_files_of_others_alone(run: Path) -> None:
    (run / "notes.txt").write_text("mine")
    predictor(epochs=1).fit(small_graph(), run, overwrite=True, observer=Observer())
    assert (run / "notes.txt").read_text() == "mine"


def test_overwrite_keeps_the_old_run_if_the_new_model_cannot_be_saved(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = LinkPredictor.load(run, device="cpu")
    full_disk(monkeypatch, "model", ERRORS[0])
    with pytest.raises(HeadtailError, match="the disk is full"):
        model.save(run, overwrite=True)
    assert (run / "model.safetensors").is_file()


def test_a_full_disk_leaves_no_half_of_a_saved_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = LinkPredictor.load(run, device="cpu")
    full_disk(monkeypatch, "model", ERRORS[0])
    with pytest.raises(HeadtailError, match="the disk is full"):
        model.save(run.parent / "copy")
    assert not (run.parent / "copy").exists()


def test_a_full_disk_amid_training_keeps_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fill(Observer):
        def epoch_done(self, record: object) -> None:
            full_disk(monkeypatch, "checkpoint", ERRORS[0])

    with pytest.raises(HeadtailError, match="the disk is full"):
        predictor(epochs=3).fit(small_graph(), tmp_path / "run", observer=Fill())
    monkeypatch.undo()
    assert predictor(epochs=3).fit(small_graph(), tmp_path / "run", resume=True, observer=Observer()).finished


def test_a_file_is_no_run_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(HeadtailError, match="is a file; a run needs a folder"):
        predictor().fit(small_graph(), tmp_path / "run", observer=Observer())


def test_a_run_killed_after_a_resume_still_knows_its_best_epoch(tmp_path: Path) -> None:
    class Kill(Observer):
        def epoch_done(self, record: object) -> None:
            raise MemoryError

    first = predictor().fit(small_graph(), tmp_path / "run", observer=Stop(2))
    with pytest.raises(MemoryError):
        predictor().fit(small_graph(), tmp_path / "run", resume=True, observer=Kill())
    assert LinkPredictor.load(tmp_path / "run", device="cpu").best_epoch == first.best_epoch


def test_the_model_card_says_what_was_trained_on_what(run: Path) -> None:
    model = LinkPredictor.load(run, device="cpu")
    result = model.evaluate()
    card = model_card(model.method, model.config, result, finished=True)
    for fact in (
        "# Link predictor for planted",
        "60 nodes, directed; 255 training, 15 validation, 30 test links (split: random)",
        "Dropped 0 self-loops and 0 duplicate links",
        "Leak audit passed: none of 45 held-out links",
        "aml: encoder sage, 2 layers of 8; seed 0",
        f"2 of 2 epochs, best {model.best_epoch}",
        "Protocol: clean; evidence at test time: train links",
        f"pairs scored {result['per_epoch']['pairs_scored']:,}",
        f"| mrr among 20 each | {100 * result['mrr']:.2f} |",
        f"| hits@10 among 20 each | {100 * result['hits@10']:.2f} |",
    ):
        assert fact in card, fact
    assert "interrupted" not in card
    assert "**Training was interrupted**" in model_card(model.method, model.config, result, finished=False)
    assert (run / "README.md").read_text() == card


def test_the_model_card_says_what_lists_are_worth(run: Path) -> None:
    model = LinkPredictor.load(run, device="cpu")
    result = model.evaluate(heads_sampled=9)
    card = model_card(model.method, model.config, result, finished=True)
    figures = result["all_nodes"]
    rows = [f"| {name} | {100 * value:.2f} |" for name, value in figures.items() if "@" in name]
    assert len(rows) == 5
    assert "\n".join(["| among all 60 nodes | % |", "|---|---|", *rows]) in card
    assert f"Measured on {figures['links']} links of 9 heads:" in card
    assert "among all" not in model_card(model.method, model.config, model.evaluate(heads_sampled=0), finished=True)


def test_a_run_is_written_with_what_lists_are_worth(tmp_path: Path) -> None:
    model = predictor(epochs=1).fit(small_graph(), tmp_path / "run", observer=Observer(), heads_sampled=7)
    assert model.result is not None
    assert lines_of(tmp_path / "run")[-1] == model.result
    assert model.result["all_nodes"]["heads"] == 7
    assert "among all 60 nodes" in (tmp_path / "run" / "README.md").read_text()
    model.save(tmp_path / "copy", heads_sampled=7)
    assert timeless(lines_of(tmp_path / "copy")[-1]) == timeless(model.result)
