"""Packs sorted integers as differences split into byte planes, which compress well."""

import numpy as np
from numpy.typing import NDArray

from headtail.datasets.raw import Ints

Bytes = NDArray[np.uint8]


def split_planes(values: Ints) -> Bytes:
    """Returns the bytes of non-negative `values` [n] as planes [b, n], lowest byte first, b as small as fits.

    High bytes of small numbers are nearly all zero: apart from the low ones they compress to almost nothing.
    """
    flat = np.ravel(values).astype(np.int64)
    if flat.size and flat.min() < 0:
        raise ValueError("only non-negative integers can be split into byte planes")
    width = max(1, (int(flat.max(initial=0)).bit_length() + 7) // 8)
    return np.stack([(flat >> (8 * byte)) & 255 for byte in range(width)]).astype(np.uint8)


def join_planes(planes: Bytes) -> Ints:
    """Returns the integers [n] whose byte planes [b, n] these are."""
    joined = np.zeros(planes.shape[1], dtype=np.int64)
    for byte, plane in enumerate(planes):
        joined |= plane.astype(np.int64) << (8 * byte)
    return joined


def pack_rows(rows: Ints) -> Bytes:
    """Returns the planes of a matrix [P, K]; the order within a row is given up, for rows are sorted."""
    ordered = np.sort(rows.astype(np.int64), axis=1)
    steps = ordered.copy()
    steps[:, 1:] -= ordered[:, :-1]
    return split_planes(steps)


def unpack_rows(planes: Bytes, num_rows: int) -> Ints:
    """Returns the row-sorted matrix [num_rows, K] of `pack_rows`."""
    return np.cumsum(join_planes(planes).reshape(num_rows, -1), axis=1)


def pack_links(links: Ints, num_nodes: int) -> tuple[Bytes, Bytes]:
    """Returns planes of out-degrees [N] and tail differences [E] of links sorted by head, then tail."""
    degrees = np.bincount(links[0], minlength=num_nodes)
    steps = np.diff(links[1].astype(np.int64), prepend=0)
    starts = _row_starts(degrees)
    steps[starts] = links[1][starts]
    return split_planes(degrees), split_planes(steps)


def unpack_links(degree_planes: Bytes, step_planes: Bytes) -> Ints:
    """Returns the links [2, E] of `pack_links`."""
    degrees = join_planes(degree_planes)
    heads = np.repeat(np.arange(len(degrees)), degrees)
    running = np.cumsum(join_planes(step_planes))
    # Each row starts again from zero, so what the rows before it summed to is taken off.
    starts = _row_starts(degrees)
    before = np.where(starts > 0, running[starts - 1], 0)
    return np.stack([heads, running - np.repeat(before, degrees[degrees > 0])])


def _row_starts(degrees: Ints) -> Ints:
    """Returns where the row of each node that has links begins."""
    return (np.cumsum(degrees) - degrees)[degrees > 0]
