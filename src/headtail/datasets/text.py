"""Turns one text per node into features: TF-IDF of words and word pieces, reduced by a randomised SVD."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import scipy.sparse as sp

from headtail.datasets.raw import Floats
from headtail.errors import DataError

# Letters and digits apart: "python3.11-minimal" shares "python" and "minimal" with its neighbours.
_WORDS = r"[^\W\d_]+|\d+"
_PIECE_LENGTH = 4
_LARGE_CORPUS = 1000


def text_features(texts: Sequence[str], dim: int = 128, seed: int = 0) -> Floats:
    """Returns float32 [N, d] features of N texts with d ≤ `dim`, the same numbers on every call.

    Rows have length √d, so that entries vary about as much as a standard normal; a text without a known
    word is a row of zeros. d is less than `dim` where the texts have fewer independent directions.
    """
    from sklearn.feature_extraction.text import CountVectorizer  # a second and more, which few commands wait for
    from sklearn.utils.extmath import randomized_svd

    if dim < 1:
        raise DataError(f"text features need at least one dimension, not {dim}")
    # A word of a single text tells nothing about links, unless there are only a few texts.
    counter = CountVectorizer(token_pattern=_WORDS, min_df=2 if len(texts) >= _LARGE_CORPUS else 1, dtype=np.float32)
    try:
        words = counter.fit_transform(texts)
    except ValueError as error:
        raise DataError(
            "the text of the nodes holds no word to make features from; name another text column"
        ) from error
    pieces = words @ _pieces_of(counter.get_feature_names_out())
    weights = sp.hstack([_tfidf(words), _tfidf(pieces)], format="csr")
    # One power iteration: more of them cost time and favour the commonest words over telling ones.
    left, sizes, _ = randomized_svd(weights, min(dim, *weights.shape), n_iter=1, random_state=seed)
    kept = sizes > 1e-5 * sizes[0]
    reduced = left[:, kept] * np.sqrt(sizes[kept])
    lengths = np.linalg.norm(reduced, axis=1, keepdims=True)
    # What rounding leaves in the row of an empty text must not be blown up to full length.
    known = (weights.getnnz(axis=1) > 0)[:, None] & (lengths > 0)
    scaled = reduced * np.sqrt(reduced.shape[1]) / np.where(known, lengths, 1)
    return np.ascontiguousarray(np.where(known, scaled, 0), dtype=np.float32)


def join_texts(columns: pd.DataFrame) -> list[str]:
    """Returns one text per row, its columns joined by spaces; a missing value is no text."""
    parts = [columns[name].astype(object).where(columns[name].notna(), "").astype(str) for name in columns]
    # A plain zip: joining row by row inside pandas takes thirty times as long.
    return [" ".join(row) for row in zip(*parts, strict=True)]


def _pieces_of(words: Sequence[str]) -> sp.csr_matrix:
    """Returns counts [words, pieces]; cutting each distinct word once is far less work than cutting texts."""
    from sklearn.feature_extraction.text import CountVectorizer

    cutter = CountVectorizer(
        analyzer="char_wb", ngram_range=(_PIECE_LENGTH, _PIECE_LENGTH), dtype=np.float32, lowercase=False
    )
    return sp.csr_matrix(cutter.fit_transform(words))


def _tfidf(counts: sp.csr_matrix) -> sp.csr_matrix:
    """Returns rows of unit length: (1 + log tf) · (1 + log((1 + N) / (1 + df)))."""
    counts = sp.csr_matrix(counts, dtype=np.float32)
    texts_with = np.bincount(counts.indices, minlength=counts.shape[1])
    rarity = (np.log((1 + counts.shape[0]) / (1 + texts_with)) + 1).astype(np.float32)
    counts.data = (1 + np.log(counts.data)) * rarity[counts.indices]
    lengths = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())
    scale = sp.diags_array((1 / np.where(lengths > 0, lengths, 1)).astype(np.float32))
    return sp.csr_matrix(scale @ counts)
