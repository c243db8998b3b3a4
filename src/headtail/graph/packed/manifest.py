"""What a packed graph says about itself, and the check that its files are what it says.

A store is a folder with a manifest and plain npy arrays. The manifest names no files: which there are follows from the
names of arrays that are known here, so a store from a stranger reads nothing outside its folder.
"""

import hashlib
import json
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headtail.datasets.arrays import STUMBLES
from headtail.errors import DataError
from headtail.given import MANIFEST_FILE

VERSION = 1
NAMES_FILE = "nodes.parquet"
MOST_MANIFEST_BYTES = 2**20
_HASHED_BYTES = 2**24


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ArrayFacts(_Strict):
    """Type, shape and content of an array."""

    dtype: Literal["<i8", "<f4"]
    shape: list[int]
    digest: str


class Manifest(_Strict):
    """Everything about a packed graph but its arrays."""

    version: Literal[1]
    source: str
    num_nodes: int = Field(ge=2, lt=2**31)
    directed: bool
    strategy: str
    self_loops: int = Field(ge=0)
    duplicates: int = Field(ge=0)
    dropped: int = Field(ge=0)
    names_digest: str | None
    arrays: dict[str, ArrayFacts]

    @property
    def digest(self) -> str:
        """One hash of all that a model of this graph depends on."""
        facts = self.model_dump(mode="json", exclude={"source", "self_loops", "duplicates", "dropped"})
        return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


def layout_of(num_nodes: int, directed: bool, timed: bool, featured: bool) -> dict[str, tuple[str, list[int | None]]]:
    """Returns dtype and shape of every array that a store of this kind has; None is any length."""
    rows: list[int | None] = [num_nodes + 1]
    layout: dict[str, tuple[str, list[int | None]]] = {
        "links": ("<i8", [2, None]),
        "train_row_ptr": ("<i8", rows),
        "known_row_ptr": ("<i8", rows),
        "known_col": ("<i8", [None]),
        "message_row_ptr": ("<i8", rows),
        "message_col": ("<i8", [None]),
        "valid": ("<i8", [2, None]),
        "test": ("<i8", [2, None]),
    }
    if not directed:  # the tails of directed links are their columns
        layout["train_col"] = ("<i8", [None])
    if timed:
        layout["times"] = ("<i8", [None])
    if featured:
        layout["features"] = ("<f4", [num_nodes, None])
    return layout


def array_file(folder: Path, name: str) -> Path:
    """Returns where an array of a store lies."""
    return folder / f"{name}.npy"


def read_manifest(folder: Path) -> Manifest:
    """Reads and checks the manifest of a store, without looking at its arrays.

    Raises:
        DataError: it is not one, of another version, or contradicts itself.
    """
    path = folder / MANIFEST_FILE
    try:
        if path.stat().st_size > MOST_MANIFEST_BYTES:
            raise _damaged(folder, f"its {MANIFEST_FILE} is too long")
        tree = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _damaged(folder, f"its {MANIFEST_FILE} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(folder, f"its {MANIFEST_FILE} is no JSON") from error
    if isinstance(tree, dict) and tree.get("version") != VERSION:
        raise DataError(
            f"{folder} was packed in version {tree.get('version')!r} of the layout, this headtail reads version "
            f"{VERSION}; pack the links again."
        )
    try:
        manifest = Manifest.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or MANIFEST_FILE
        raise _damaged(folder, f"{place} in its {MANIFEST_FILE} is wrong: {first['msg'].lower()}") from error
    timed, featured = ("times" in manifest.arrays), ("features" in manifest.arrays)
    layout = layout_of(manifest.num_nodes, manifest.directed, timed, featured)
    if set(layout) != set(manifest.arrays):
        odd = sorted(set(layout) ^ set(manifest.arrays))
        raise _damaged(folder, f"its {MANIFEST_FILE} lacks or adds the array {odd[0]!r}")
    for name, (dtype, shape) in layout.items():
        _check_facts(folder, name, manifest.arrays[name], dtype, shape)
    _check_lengths(folder, {name: facts.shape[-1] for name, facts in manifest.arrays.items()})
    return manifest


def map_array(folder: Path, name: str, facts: ArrayFacts) -> NDArray[np.generic]:
    """Maps an array that is checked to be what the manifest says: no links, no other type, no other length.

    Raises:
        DataError: it is not.
    """
    path = array_file(folder, name)
    if path.is_symlink() or not path.is_file():
        raise _damaged(folder, f"{path.name} is missing or no plain file")
    try:
        with path.open("rb") as file:
            if npy.read_magic(file) != (1, 0):
                raise ValueError("another version of npy")
            shape, in_columns, dtype = npy.read_array_header_1_0(file)
            start = file.tell()
    except (OSError, *STUMBLES) as error:
        raise _damaged(folder, f"{path.name} is no npy array ({error})") from error
    if list(shape) != facts.shape or dtype.str != facts.dtype or in_columns:
        raise _damaged(folder, f"{path.name} holds {dtype.str} {list(shape)}, not {facts.dtype} {facts.shape}")
    if path.stat().st_size != start + dtype.itemsize * int(np.prod(shape, dtype=object)):
        raise _damaged(folder, f"{path.name} is shorter or longer than its {list(shape)} say")
    if 0 in shape:
        return np.empty(shape, dtype=dtype)
    mapped: NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped


def digest_of(path: Path) -> str:
    """Returns a hash of a file's bytes."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(_HASHED_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _check_facts(folder: Path, name: str, facts: ArrayFacts, dtype: str, shape: list[int | None]) -> None:
    fits = len(shape) == len(facts.shape) and all(
        length >= 0 and wanted in (None, length) for wanted, length in zip(shape, facts.shape, strict=True)
    )
    if facts.dtype != dtype or not fits:
        raise _damaged(folder, f"{name} should be {dtype} {shape}, but its {MANIFEST_FILE} says {facts.shape}")


def _check_lengths(folder: Path, lengths: dict[str, int]) -> None:
    links = lengths["links"]
    if min(links, lengths["valid"], lengths["test"]) < 1:
        raise _damaged(folder, "it lacks training, validation or test links")
    wanted = {"train_col": 2 * links, "times": links}
    for name, length in wanted.items():
        if lengths.get(name, length) != length:
            raise _damaged(folder, f"{name} has {lengths[name]:,} entries for {links:,} links")
    if lengths.get("features", 1) < 1:
        raise _damaged(folder, "its features have no columns")


def _damaged(folder: Path, what: str) -> DataError:
    return DataError(f"{folder} is no whole packed graph: {what}; pack the links again.")
