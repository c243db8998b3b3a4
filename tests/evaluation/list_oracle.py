"""What lists are worth, by brute force over a full table of scores, and RecBole's figures restated in NumPy."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from random_graphs import Pairs, as_pairs

Scores = NDArray[np.float64]


def tails_by_head(links: Tensor, directed: bool) -> dict[int, set[int]]:
    pairs: Pairs = as_pairs(links)
    found: dict[int, set[int]] = {}
    for head, tail in pairs if directed else [*pairs, *((tail, head) for head, tail in pairs)]:
        found.setdefault(head, set()).add(tail)
    return found


def best_first(scores: Scores, head: int, barred: set[int]) -> list[int]:
    """Returns all nodes but the head and the barred ones; equal scores by smaller number."""
    order = sorted(range(len(scores)), key=lambda tail: (-scores[head, tail], tail))
    return [tail for tail in order if tail != head and tail not in barred]


def links_oracle(
    scores: Scores,
    heads: list[int],
    train: dict[int, set[int]],
    skipped: dict[int, set[int]],
    wanted: dict[int, set[int]],
    most: int,
) -> dict[str, float]:
    """Ranks every link by counting the nodes above it; one that is no answer, or none of the first `most`, has none."""
    ranks: list[float] = []
    for head in heads:
        answers = best_first(scores, head, train.get(head, set()))[:most]
        for tail in wanted[head]:
            if tail not in answers or tail in skipped.get(head, set()):
                ranks.append(np.inf)
                continue
            above = set(answers[: answers.index(tail)])
            ranks.append(1 + len(above - skipped.get(head, set()) - wanted[head]))
    found = np.array(ranks)
    return {
        "recall@10": float((found <= 10).mean()),
        "recall@50": float((found <= 50).mean()),
        "mrr@50": float(np.where(found <= 50, 1 / found, 0).mean()),
        "heads": len(heads),
        "links": len(ranks),
    }


def recbole_oracle(
    scores: Scores, heads: list[int], seen: dict[int, set[int]], wanted: dict[int, set[int]], k: int = 20
) -> dict[str, float]:
    """Recall and NDCG as RecBole computes them: a matrix of hits, and the size of every head's truth.

    What a head has `seen` scores −∞, so it stands behind all others and is no hit.
    """
    masked = scores.copy()
    for head in heads:
        masked[head, [head, *seen.get(head, ())]] = -np.inf
    order = np.argsort(-masked[heads], axis=1, kind="stable")[:, :k]
    pos_index = np.array(
        [
            [tail in wanted[head] and masked[head, tail] > -np.inf for tail in row]
            for head, row in zip(heads, order, strict=True)
        ]
    )
    pos_len = np.array([len(wanted[head]) for head in heads])
    recall = pos_index.sum(axis=1) / pos_len
    ndcg = np.zeros(len(heads))
    for row, (hits, size) in enumerate(zip(pos_index, pos_len, strict=True)):
        gains = 1 / np.log2(np.arange(1, len(hits) + 1) + 1)
        ndcg[row] = gains[hits].sum() / sum(1 / np.log2(place + 1) for place in range(1, min(size, k) + 1))
    return {"head_recall@20": float(recall.mean()), "head_ndcg@20": float(ndcg.mean())}
