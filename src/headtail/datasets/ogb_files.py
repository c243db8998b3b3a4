"""The file formats of OGB: compressed CSV without a header, and .pt files, which are read without running them.

A .pt file is a pickle, a program that can do anything to whoever runs it. Torch's restricted reader runs none: it
builds tensors and plain containers, here numpy arrays of numbers as well, and stops at everything else. It reads the
zip files of torch 1.6 and later and the older plain ones alike.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from headtail.datasets.arrays import Array, to_numpy
from headtail.datasets.raw import Ints
from headtail.datasets.unpacked import unpacked
from headtail.errors import DataError
from headtail.limits import refuse_beyond_memory

_BLOCK_BYTES = 1 << 20
Named: TypeAlias = Callable[..., Any] | tuple[Callable[..., Any], str]


def read_csv_matrix(path: Path, kind: Literal["int64", "float32"]) -> NDArray[Any]:
    """Returns the numbers of a compressed CSV without header as [rows, columns].

    Raises:
        DataError: the file is damaged, or a field is no such number.
    """
    try:
        with unpacked(path, copies=1) as stream:
            columns = stream.read(_BLOCK_BYTES).partition(b"\n")[0].count(b",") + 1
        # Types are told, not found out: what is no number is refused at the first, and never held as text.
        types = {f"f{position}": pa.type_for_alias(kind) for position in range(columns)}
        with unpacked(path, copies=1) as stream:
            # Block after block, so that the first wrong one is also the last; unpacking takes longer than one thread.
            blocks = pacsv.open_csv(
                pa.PythonFile(stream, "r"),
                read_options=pacsv.ReadOptions(use_threads=False, autogenerate_column_names=True),
                convert_options=pacsv.ConvertOptions(column_types=types),
            )
            batches, held = [], 0
            for batch in blocks:
                batches.append(batch)
                held += batch.nbytes
                refuse_beyond_memory(str(path), held)  # the matrix takes as much again
        table = pa.Table.from_batches(batches)
        matrix = np.empty((table.num_rows, columns), dtype=kind)
        for position, column in enumerate(table.columns):
            if column.null_count:
                raise ValueError(f"{column.null_count} fields of column {position + 1} are empty")
            matrix[:, position] = column.to_numpy()
    except (pa.ArrowException, OSError, ValueError) as error:
        detail = " ".join(str(error).split())
        raise DataError(f"{path} is damaged or holds something else than {kind} numbers: {detail}") from error
    return matrix


def single_count(array: Array, source: str) -> int:
    """Returns the only number of an array: OGB's link data are one graph each."""
    if array.size != 1 or array.dtype.kind not in "iu":
        raise DataError(f"{source} must hold one number, that of the nodes, not {array.size} of kind {array.dtype}")
    return int(array.reshape(-1)[0])


def read_pt(path: Path) -> dict[str, Any]:
    """Returns the dictionary in a .pt file; nothing in the file is run.

    Raises:
        DataError: the file is damaged, wants to call something, or holds no dictionary.
    """
    import torch  # here: it takes a second, which reading other data need not wait for

    try:
        with torch.serialization.safe_globals(cast(Any, _numpy_makers())):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can make the reader stumble anywhere
        called = re.search(r"GLOBAL ([\w.]+)", str(error))
        what = f"calls {called[1]}, and nothing in a data file is run" if called else "is damaged or no .pt file"
        raise DataError(f"{path} {what}; fetch it again from OGB") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} holds {type(content).__name__}, expected a dictionary of arrays as OGB writes it")
    return content


def _numpy_makers() -> list[Named]:
    """What numpy's own pickles of numeric arrays name, under its module names before and since version 2.

    Objects are not among the dtypes: an array of them could hold anything.
    """
    make: Any = np.zeros(0).__reduce__()[0]
    dtypes: list[Named] = [type(np.dtype(code)) for code in ("?", *"bhilqBHILQefd")]
    modules = ("numpy.core.multiarray", "numpy._core.multiarray")
    return [np.ndarray, np.dtype, *dict.fromkeys(dtypes), *[(make, f"{module}._reconstruct") for module in modules]]


@dataclass(frozen=True)
class SplitPart:
    """Training, validation or test links as OGB writes them: arrays by name."""

    source: str
    arrays: Mapping[str, Any]

    @staticmethod
    def read(path: Path) -> "SplitPart":
        return SplitPart(str(path), read_pt(path))

    def links(self, directed: bool) -> Ints:
        """Returns links [2, E]: from rows of `edge`, or from `source_node` and `target_node` of directed data."""
        if not directed:
            return self.integers("edge", (None, 2)).T
        heads = self.integers("source_node", (None,))
        return np.stack([heads, self.integers("target_node", heads.shape)])

    def negatives(self, directed: bool) -> Ints:
        """Returns pairs [2, M] shared by all links, or tails [E, K] of each head of directed data."""
        if not directed:
            return self.integers("edge_neg", (None, 2)).T
        return self.integers("target_node_neg", (self.links(directed).shape[1], None))

    def integers(self, key: str, shape: tuple[int | None, ...]) -> Ints:
        """Returns an array of node numbers or years; None in `shape` stands for any size."""
        if key not in self.arrays:
            held = ", ".join(sorted(map(str, self.arrays)))
            raise DataError(f"{self.source} has no entry {key!r}; it holds: {held or 'nothing'}")
        array = to_numpy(self.arrays[key])
        fits = array.ndim == len(shape) and all(
            size in (None, own) for size, own in zip(shape, array.shape, strict=True)
        )
        if not fits or array.dtype.kind not in "iu":
            wanted = ", ".join("any" if size is None else str(size) for size in shape)
            raise DataError(
                f"{self.source}: {key!r} is {array.dtype} of shape {list(array.shape)}, expected integers [{wanted}]"
            )
        return array.astype(np.int64)
