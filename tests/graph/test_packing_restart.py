"""A packing that is killed goes on where it was, to the same bytes; and nothing half done looks whole."""

import json
import os
import signal
from pathlib import Path

import pytest
from pack_case import bytes_of, write_files

from headtail import load
from headtail.errors import DataError, HeadtailError
from headtail.given import MANIFEST_FILE
from headtail.graph.packed import arrays, stages
from headtail.graph.packed import pack as packing
from headtail.graph.packed.pack import RECORD_FILE, pack

pytest.importorskip("duckdb")
LAST = "writing the manifest"


def killed_in(stage: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packs in a process that kills itself in the middle of a stage: when it has written half of its files."""
    child = os.fork()
    if child == 0:
        try:
            _pack_until(stage, folder)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def _pack_until(stage: str, folder: Path) -> None:
    def die(*_given: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if stage == LAST:
        packing.write_text = lambda path, text: die() if path.name == MANIFEST_FILE else _write(path, text)
    else:
        begin = stages.STAGES[stage]

        def half(work: stages.Work, advance: object) -> stages.Facts:
            arrays.write_pointers = stages.write_pointers = die  # type: ignore[assignment]
            stages.GrowingArray.__exit__ = die  # type: ignore[assignment, method-assign]
            begin(work, lambda _share: None)
            die()
            return {}

        stages.STAGES[stage] = half
    everything(folder)


_write = packing.write_text


def everything(folder: Path) -> None:
    pack([folder / "links.csv"], folder / "graph.ht", features=folder / "x.npy", nodes=folder / "nodes.csv")


@pytest.mark.slow
@pytest.mark.parametrize("stage", [*stages.STAGES, LAST])
def test_a_killed_packing_goes_on_to_the_same_bytes(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, named=True)
    everything(tmp_path)
    whole = bytes_of(tmp_path / "graph.ht")
    (tmp_path / "graph.ht").rename(tmp_path / "first.ht")
    killed_in(stage, tmp_path, monkeypatch)
    assert not (tmp_path / "graph.ht").exists()
    with pytest.raises(DataError):
        load(tmp_path / ".graph.ht.packing")
    record = tmp_path / ".graph.ht.packing" / RECORD_FILE
    done = list(json.loads(record.read_text())["stages"]) if record.exists() else []
    assert done == [*stages.STAGES, LAST][: [*stages.STAGES, LAST].index(stage)]
    said: list[str] = []
    pack(
        [tmp_path / "links.csv"],
        tmp_path / "graph.ht",
        features=tmp_path / "x.npy",
        nodes=tmp_path / "nodes.csv",
        say=said.append,
    )
    assert len([sentence for sentence in said if sentence.endswith(": done.")]) == len(stages.STAGES) - len(done)
    assert bytes_of(tmp_path / "graph.ht") == whole
    assert not (tmp_path / ".graph.ht.packing").exists()


def test_other_files_or_settings_start_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, named=True)
    killed_in("building rows", tmp_path, monkeypatch)
    said: list[str] = []
    pack([tmp_path / "links.csv"], tmp_path / "graph.ht", say=said.append)
    assert "other files or settings" in said[0]
    assert load(tmp_path / "graph.ht").features is None


def test_what_is_there_is_replaced_only_when_asked(tmp_path: Path) -> None:
    write_files(tmp_path)
    pack([tmp_path / "links.csv"], tmp_path / "graph.ht")
    before = bytes_of(tmp_path / "graph.ht")
    with pytest.raises(HeadtailError, match="packed already; replace it with --overwrite"):
        pack([tmp_path / "links.csv"], tmp_path / "graph.ht", features=tmp_path / "x.npy")
    assert bytes_of(tmp_path / "graph.ht") == before
    pack([tmp_path / "links.csv"], tmp_path / "graph.ht", features=tmp_path / "x.npy", overwrite=True)
    assert load(tmp_path / "graph.ht").features is not None
    (tmp_path / "mine").mkdir()
    with pytest.raises(HeadtailError, match="exists and is no packed graph"):
        pack([tmp_path / "links.csv"], tmp_path / "mine", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_two_packings_of_one_graph_do_not_meet(tmp_path: Path) -> None:
    write_files(tmp_path)
    with (
        packing._alone(tmp_path / ".graph.ht.packing", tmp_path / "graph.ht"),
        pytest.raises(HeadtailError, match="another process is packing"),
    ):
        pack([tmp_path / "links.csv"], tmp_path / "graph.ht")


def test_a_missing_engine_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(HeadtailError, match=r"pip install 'headtail\[pack\]'"):
        pack([tmp_path / "links.csv"], tmp_path / "graph.ht")
