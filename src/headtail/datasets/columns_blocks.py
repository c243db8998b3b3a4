"""Turns numbers and categories of nodes into blocks of features.

The entries of a block have a mean square of about 1, its rows a length of about the root of its width, as those of
text features and of structural features have.
"""

from collections.abc import Sequence

import numpy as np

from headtail.datasets.columns_kinds import Categories, Numbers
from headtail.datasets.columns_written import Doubles
from headtail.datasets.raw import Floats, Ints

# More categories than this get directions in a space of this many dimensions instead of a column each.
MOST_CATEGORY_COLUMNS = 128
# An exponential distribution has skewness 2; what is more skewed has a tail worth a logarithm.
_HEAVY_TAIL = 2.0
# One outlier must not drown what all other columns tell of its node.
_FARTHEST = 10.0
# Numbers that differ in their last bit may be equal after a logarithm; nothing is divided by less than this.
_SMALLEST = float(np.finfo(np.float64).tiny)


def number_block(columns: Sequence[Numbers]) -> Floats:
    """Returns float32 [N, d]: a standardised column for each, and one more where numbers are missing.

    A missing number counts as the mean, and the column after it tells where numbers are missing. A non-negative
    column with a heavy tail enters by its logarithm. Units make no difference: metres give what kilometres give.
    """
    parts: list[Doubles] = []
    for column in columns:
        missing = np.isnan(column.values)
        present = column.values[~missing]
        if np.any(present != present[0]):
            filled = np.zeros(len(missing))
            filled[~missing] = _standardised(_without_tail(present / np.abs(present).max()))
            parts.append(filled)
        if missing.any():
            parts.append(_standardised(missing.astype(np.float64)))
    return np.ascontiguousarray(np.stack(parts, axis=1), dtype=np.float32)


def category_block(columns: Sequence[Categories], seed: int = 0) -> Floats:
    """Returns float32 [N, d], d ≤ MOST_CATEGORY_COLUMNS: equal rows for equal categories.

    Each value that at least two nodes have is a category; values of a single node share one, missing ones
    another. Few categories have a column each. Many have each a random direction, the same in every call, and the
    directions of a node's categories are summed: unlike a decomposition, which keeps only frequent ones, this tells
    all of them apart.
    """
    groups = [_grouped(column.codes) for column in columns]
    widths = [int(codes.max()) + 1 for codes in groups]
    starts = np.cumsum([0, *widths])
    num_nodes, total = len(groups[0]), int(starts[-1])
    if total <= MOST_CATEGORY_COLUMNS:
        block = np.zeros((num_nodes, total), dtype=np.float32)
        for codes, start in zip(groups, starts[:-1], strict=True):
            block[np.arange(num_nodes), codes + start] = np.sqrt(total / len(groups))
        return block
    block = np.zeros((num_nodes, MOST_CATEGORY_COLUMNS), dtype=np.float32)
    random = np.random.default_rng(seed)
    for codes, width in zip(groups, widths, strict=True):
        directions = random.standard_normal((width, MOST_CATEGORY_COLUMNS), dtype=np.float32)
        directions *= np.sqrt(MOST_CATEGORY_COLUMNS / len(groups)) / np.linalg.norm(directions, axis=1, keepdims=True)
        block += directions[codes]
    return block


def _grouped(codes: Ints) -> Ints:
    """Numbers categories 0, 1, …: values of two and more nodes in their order, then those of one, then missing."""
    holders = np.bincount(codes[codes >= 0])
    frequent = holders > 1
    group = np.where(frequent, np.cumsum(frequent) - 1, frequent.sum())
    with_missing = np.append(group, group.max() + 1)
    return with_missing[codes].astype(np.int64)


def _without_tail(numbers: Doubles) -> Doubles:
    """Returns log(1 + x / median of positive x) where the tail is heavy, which leaves units out of it."""
    if numbers.min() < 0 or np.mean(_standardised(numbers, np.inf) ** 3) <= _HEAVY_TAIL:
        return numbers
    return np.log1p(numbers / max(np.median(numbers[numbers > 0]), _SMALLEST))


def _standardised(numbers: Doubles, farthest: float = _FARTHEST) -> Doubles:
    """Returns numbers that vary with mean 0 and variance 1, none farther out than `farthest`."""
    scaled: Doubles = (numbers - numbers.mean()) / max(numbers.std(), _SMALLEST)
    return scaled.clip(-farthest, farthest)
