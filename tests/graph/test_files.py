"""Files are written whole or not at all, and say why not."""

import errno
import os
from pathlib import Path
from typing import Never

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from headtail import files
from headtail.errors import HeadtailError, RunError
from headtail.files import read_tensors, replacing, write_tensors, write_text


def full(*_: object, **__: object) -> Never:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_finished_block_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    write_text(path, "old")
    write_text(path, "new, ü")
    assert path.read_text(encoding="utf-8") == "new, ü"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.txt"]


@pytest.mark.parametrize("crash", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_crash_leaves_the_old_file(tmp_path: Path, crash: type[BaseException]) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")
    with pytest.raises(crash), replacing(path) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise crash
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.txt"]


def test_the_file_is_untouched_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.parametrize("call", ["fsync", "write"])
def test_a_full_disk_is_told_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")
    with monkeypatch.context() as patch:
        if call == "fsync":
            patch.setattr(os, "fsync", full)
        else:
            patch.setattr(Path, "write_text", full)
        with pytest.raises(HeadtailError, match="the disk is full") as caught:
            write_text(path, "new")
    assert str(path) in str(caught.value)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.txt"]


def test_tensors_on_a_full_disk_leave_the_old_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object, **__: object) -> Never:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    path = tmp_path / "weights.safetensors"
    write_tensors(path, {"a": torch.zeros(3)}, {"epoch": 1})
    monkeypatch.setattr(files, "save_file", no_space)
    with pytest.raises(HeadtailError, match="the disk is full"):
        write_tensors(path, {"a": torch.ones(3)}, {"epoch": 2})
    assert torch.equal(read_tensors(path)[0]["a"], torch.zeros(3))


@pytest.mark.parametrize("name", ["file/x.txt", "x" * 255], ids=["parent is a file", "long name"])
def test_an_impossible_path_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(HeadtailError, match="cannot write"):
        write_text(tmp_path / name, "text")


def test_tensors_and_facts_come_back(tmp_path: Path) -> None:
    path = tmp_path / "run" / "weights.safetensors"
    tensors = {
        "a": torch.randn(3, 4).T,  # not contiguous
        "b": torch.tensor([2**62, -1]),
        "c": torch.randn(2, requires_grad=True),
        "empty": torch.empty(0, 5),
        "scalar": torch.tensor(1.5),
    }
    write_tensors(path, tensors, {"epoch": 3, "name": "ü"})
    back, facts = read_tensors(path)
    assert facts == {"epoch": 3, "name": "ü"}
    assert set(back) == set(tensors)
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)


def test_tensors_that_share_memory_come_back(tmp_path: Path) -> None:
    a = torch.arange(6)
    write_tensors(tmp_path / "t.safetensors", {"a": a, "b": a}, {})
    assert torch.equal(read_tensors(tmp_path / "t.safetensors")[0]["b"], a)


def test_what_is_not_ours_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    with pytest.raises(RunError, match="does not exist"):
        read_tensors(path)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(RunError, match="damaged"):
        read_tensors(path)
    save_file({"a": torch.zeros(1)}, path, metadata={"facts": "{no json"})
    with pytest.raises(RunError, match="damaged"):
        read_tensors(path)
