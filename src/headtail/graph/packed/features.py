"""Feature matrices, copied into a packed graph a block of rows at a time."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headtail.datasets.arrays import STUMBLES
from headtail.errors import DataError
from headtail.graph.packed.arrays import blocks_of, new_array
from headtail.progress import Advance

# Numbers that are copied at a time.
BLOCK_NUMBERS = 2**22


def open_matrix(path: Path) -> NDArray[np.generic]:
    """Maps a feature matrix [N, d].

    Raises:
        DataError: it is none.
    """
    if path.suffix.lower() != ".npy":
        raise DataError(f"{path}: packing reads features as .npy, a row per node; save them so with numpy.save")
    try:
        matrix: NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, *STUMBLES) as error:
        raise DataError(f"{path} is no npy array ({error}); save it again with numpy.save") from error
    if (
        not isinstance(matrix, np.ndarray)
        or matrix.ndim != 2
        or matrix.shape[1] == 0
        or matrix.dtype.kind not in "fiub"
    ):
        raise DataError(f"{path} is no matrix of numbers [nodes, features]")
    return matrix


def write_features(path: Path, out: Path, num_nodes: int, advance: Advance) -> None:
    """Copies a matrix as float32, refusing what is no number.

    Raises:
        DataError: it has not a row for every node, or a value is NaN, infinite or too large.
    """
    matrix = open_matrix(path)
    if len(matrix) != num_nodes:
        raise DataError(
            f"{path} has {len(matrix)} rows, but the graph has {num_nodes} nodes; give one row for every node, in "
            "the order of the node table"
        )
    size = max(1, BLOCK_NUMBERS // matrix.shape[1])
    with new_array(out, "<f4", matrix.shape) as copied, np.errstate(over="ignore"):
        for part in blocks_of(len(matrix), size):
            block = matrix[part].astype(np.float32)
            if not np.isfinite(block).all():
                row, column = (int(index) for index in np.argwhere(~np.isfinite(block))[0])
                raise DataError(
                    f"{path}: the feature in row {part.start + row}, column {column} is NaN, infinite or too large; "
                    "replace such values, for example by the mean of their column"
                )
            copied[part] = block
            advance(len(block) / len(matrix))
