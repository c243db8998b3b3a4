"""A store that is damaged, or made by a stranger, is refused in a sentence before anything is mapped."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pack_case import write_files

from headtail import load
from headtail.errors import DataError
from headtail.graph.packed.pack import pack

pytest.importorskip("duckdb")
Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    write_files(folder, named=True, directed=False)
    options = {"features": folder / "x.npy", "nodes": folder / "nodes.csv"}
    pack([folder / "links.csv"], folder / "graph.ht", directed=False, time_column="year", **options)
    return folder / "graph.ht"


def told(change: Callable[[dict[str, Any]], object]) -> Damage:
    """Returns what changes the manifest."""

    def damage(folder: Path) -> None:
        tree = json.loads((folder / "manifest.json").read_text())
        change(tree)
        (folder / "manifest.json").write_text(json.dumps(tree))

    return damage


def written(name: str, change: Callable[[Any], Any]) -> Damage:
    """Returns what changes an array."""
    return lambda folder: np.save(folder / f"{name}.npy", change(np.load(folder / f"{name}.npy", allow_pickle=False)))


def cut(name: str) -> Damage:
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size - 8)


def linked(folder: Path) -> None:
    (folder / "features.npy").rename(folder.parent / "secret.npy")
    (folder / "features.npy").symlink_to(folder.parent / "secret.npy")


def pickled(folder: Path) -> None:
    np.save(folder / "links.npy", np.array([[{}], [{}]], dtype=object), allow_pickle=True)


def put(array: Any, value: int) -> Any:
    array.reshape(-1)[-1] = value
    return array


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "manifest.json").write_text("{"), "is no JSON"),
        (lambda folder: (folder / "manifest.json").write_text("[" * 100_000), "is no JSON"),
        (lambda folder: (folder / "manifest.json").write_text(" " * 2**21), "is too long"),
        (lambda folder: (folder / "manifest.json").write_text("[1]"), "is wrong"),
        (told(lambda tree: tree.update(version=9)), "was packed in version 9 of the layout"),
        (told(lambda tree: tree.update(num_nodes="60")), "num_nodes in its manifest.json is wrong"),
        (told(lambda tree: tree.update(num_nodes=-1)), "num_nodes in its manifest.json is wrong"),
        (told(lambda tree: tree.update(num_nodes=61)), "should be <i8"),
        (told(lambda tree: tree.update(run="rm -rf /")), "run in its manifest.json is wrong"),
        (told(lambda tree: tree["arrays"].pop("links")), "lacks or adds the array 'links'"),
        (told(lambda tree: tree["arrays"].update({"../../etc/passwd": tree["arrays"]["links"]})), "adds the array"),
        (told(lambda tree: tree["arrays"]["features"].update(dtype="|O8")), "features.dtype"),
        (told(lambda tree: tree["arrays"]["links"].update(shape=[2, 2**62])), "has .* entries for"),
        (told(lambda tree: tree["arrays"]["links"].update(shape=[2, -1])), "should be <i8"),
        (told(lambda tree: tree["arrays"]["features"].update(shape=[60, 2**60])), "not <f4"),
        (told(lambda tree: tree["arrays"]["features"].update(shape=[60, 0])), "no columns"),
        (cut("links.npy"), "shorter or longer"),
        (cut("features.npy"), "shorter or longer"),
        (lambda folder: (folder / "known_col.npy").unlink(), "missing or no plain file"),
        (lambda folder: (folder / "known_col.npy").write_bytes(b"\x93NUMPY"), "is no npy array"),
        (lambda folder: (folder / "known_col.npy").write_bytes(b""), "is no npy array"),
        (linked, "missing or no plain file"),
        (pickled, "holds |O"),
        (written("features", lambda x: np.asfortranarray(x)), "holds <f4"),
        (written("features", lambda x: x.astype(np.float64)), "holds <f8"),
        (written("links", lambda x: put(x, 60)), "names the nodes 0 to 60 of 60"),
        (written("message_col", lambda x: put(x, -1)), "message_col names the nodes -1"),
        (written("train_row_ptr", lambda x: put(x, 7)), "rows of train do not fit"),
        (written("test", lambda x: put(x, 2**40)), "test names the nodes"),
    ],
)
def test_damage_is_told(damage: Damage, message: str, whole: Path, tmp_path: Path) -> None:
    copy = tmp_path / "graph.ht"
    copy.mkdir()
    for path in whole.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    load(copy)
    damage(copy)
    with pytest.raises(DataError, match=message):
        load(copy)


@pytest.mark.parametrize("damage", [cut("nodes.parquet"), lambda folder: (folder / "nodes.parquet").unlink()])
def test_names_are_checked_when_they_are_read(damage: Damage, whole: Path, tmp_path: Path) -> None:
    copy = tmp_path / "graph.ht"
    copy.mkdir()
    for path in whole.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    graph = load(copy)
    assert graph.names.array()[3] == "n003"
    damage(copy)
    with pytest.raises(DataError, match=r"nodes\.parquet is"):
        load(copy).names.array()
