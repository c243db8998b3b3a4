"""Tables of what a link to one node says about links to others, made once and cut to their largest entries."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from headtail.graph.matrix import Matrix, Nodes, scale_columns
from headtail.serving.sight import Sight, falling

# Heads of many links are left out, largest first, until products have at most so many terms per link, and in all.
TERMS_PER_LINK, MOST_TERMS = 200, 2**31
# A row keeps its largest entries, fewer where all rows together would have more than this.
MOST_OF_ROW, MOST_ENTRIES = 400, 2**26
# Terms of a product that is held at a time.
BLOCK_TERMS = 2**24


def item_table(sight: Sight, last: Matrix) -> Matrix:
    """Returns [N, N]: row z is the mean of `last` [N, N] over the heads of z, its largest entries only."""
    kept = _heads_kept(sight)
    into = scale_columns(sight.into, kept.astype(np.float32)).copy()  # its pattern is the view's
    into.eliminate_zeros()
    into.data *= np.repeat(falling(sight.in_degree), np.diff(into.indptr))
    most = max(1, min(MOST_OF_ROW, MOST_ENTRIES // max(1, int((sight.in_degree > 0).sum()))))
    sizes = np.diff(last.indptr).astype(np.float64)
    terms = np.add.reduceat(np.append(sizes[into.indices], 0), into.indptr[:-1]) * (np.diff(into.indptr) > 0)
    ends = np.searchsorted(np.cumsum(terms), np.arange(BLOCK_TERMS, terms.sum() + BLOCK_TERMS, BLOCK_TERMS)) + 1
    cuts = np.unique(np.concatenate([[0], np.minimum(ends, sight.num_nodes), [sight.num_nodes]]))
    parts = [largest_of_rows(into[a:b] @ last, most) for a, b in pairwise(cuts)]
    table: Matrix = sparse.vstack(parts, format="csr")
    return table


def _heads_kept(sight: Sight) -> NDArray[np.bool_]:
    """Returns bool [N]: heads whose links are paired with each other; those of very many would be nearly all work."""
    degree = sight.out_degree
    order = np.argsort(degree, kind="stable")
    most = min(TERMS_PER_LINK * sight.out.nnz, MOST_TERMS)
    kept = np.zeros(degree.size, dtype=np.bool_)
    kept[order[np.cumsum(degree[order].astype(np.float64) ** 2) <= most]] = True
    return kept


def largest_of_rows(matrix: Matrix, most: int) -> Matrix:
    """Returns the `most` largest entries of every row, and what equals the last of them."""
    sizes = np.diff(matrix.indptr)
    least = np.zeros(sizes.size, dtype=np.float32)
    for row in np.flatnonzero(sizes > most):
        values = matrix.data[matrix.indptr[row] : matrix.indptr[row + 1]]
        least[row] = np.partition(values, values.size - most)[values.size - most]
    of_entry: Nodes = np.repeat(np.arange(sizes.size), sizes)
    kept = matrix.data >= least[of_entry]
    pointers = np.concatenate([[0], np.cumsum(np.bincount(of_entry[kept], minlength=sizes.size))])
    return sparse.csr_array((matrix.data[kept], matrix.indices[kept], pointers), shape=matrix.shape)
