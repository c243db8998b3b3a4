"""The leak audit: proof that no held-out link is in the message graph or among the training labels.

In an undirected graph a held-out link may be present in neither orientation. In a directed graph it may not
be present in its own direction; a training link that runs the other way is another link, which is counted,
reported, and dropped on request.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headtail.errors import DataError
from headtail.graph.csr import CSR
from headtail.graph.graph import HeldOut, link_keys
from headtail.graph.split import Split
from headtail.graph.view import GraphView


@dataclass(frozen=True)
class LeakAudit:
    """What the audit found on the structures that training uses.

    Attributes:
        held_out: links checked.
        in_labels, in_messages: held-out links found among training labels and in the message graph (both 0
            in an audit that passed).
        reversed_links: directed only, training links that run against a held-out link.
        dropped: training links removed because they overlapped.
    """

    held_out: int
    in_labels: int
    in_messages: int
    reversed_links: int
    dropped: int

    def __str__(self) -> str:
        text = (
            f"leak audit passed: none of {self.held_out:,} held-out links is in the message graph "
            "or the training labels"
        )
        if self.reversed_links:
            text += f"; {self.reversed_links:,} training links run the other way of one (drop_reversed removes them)"
        if self.dropped:
            text += f"; {self.dropped:,} overlapping training links were dropped"
        return text


def clean_split(
    split: Split,
    num_nodes: int,
    directed: bool,
    drop_leaks: bool,
    drop_reversed: bool,
    test_sees_valid: bool,
    metric: str = "mrr",
) -> tuple[Split, int]:
    """Removes training links that overlap held-out ones, where that is allowed.

    Args:
        test_sees_valid: validation links join the message graph of the test, so they may not be test links.
        metric: tells whether negatives belong to single positives (mrr) or are shared (hits@K).

    Returns:
        The split and the number of links dropped.

    Raises:
        DataError: there are leaks and `drop_leaks` is off.
    """
    before = split.train.shape[1] + split.valid.positives.shape[1]
    held_out = torch.cat([split.valid.positives, split.test.positives], dim=1)
    leaking = _overlap(split.train, held_out, num_nodes, directed)
    leaks = int(leaking.sum())
    if test_sees_valid:
        leaking_valid = _overlap(split.valid.positives, split.test.positives, num_nodes, directed)
        leaks += int(leaking_valid.sum())
    if leaks and not drop_leaks:
        raise DataError(
            f"the given split leaks: {leaks:,} links that a held-out link repeats would be seen in training or by the "
            "test's message graph; remove them from the training links, or pass drop_leaks (--drop-leaks) to do so."
        )
    if directed and drop_reversed:
        leaking |= _overlap(split.train, held_out.flip(0), num_nodes, directed)
    if leaking.any():
        times = None if split.train_times is None else split.train_times[~leaking]
        split = replace(split, train=split.train[:, ~leaking], train_times=times)
        if split.train.shape[1] == 0:
            raise DataError("every training link is also held out; nothing is left to train on.")
    if test_sees_valid and leaking_valid.any():
        if leaking_valid.all():
            raise DataError("every validation link is also a test link; nothing is left to validate on.")
        split = replace(split, valid=_without(split.valid, leaking_valid, per_positive=metric == "mrr"))
    return split, before - split.train.shape[1] - split.valid.positives.shape[1]


def audit(split: Split, labels: CSR, messages: CSR, num_nodes: int, directed: bool, dropped: int) -> LeakAudit:
    """Checks the very structures that training reads: label rows and the message graph.

    Raises:
        DataError: a held-out link was found in either.
    """
    held_out = torch.cat([split.valid.positives, split.test.positives], dim=1)
    head, tail = held_out[0], held_out[1]
    in_labels, in_messages = labels.contains(head, tail), messages.contains(head, tail)
    reverse = torch.zeros_like(in_labels)
    if directed:
        # The symmetric message graph shows (i, j) also where only the other link (j, i) is in training.
        reverse = labels.contains(tail, head)
        in_messages = in_messages & ~reverse
    else:
        in_labels = in_labels | labels.contains(tail, head)
        in_messages = in_messages | messages.contains(tail, head)
    found = LeakAudit(held_out.shape[1], int(in_labels.sum()), int(in_messages.sum()), int(reverse.sum()), dropped)
    if found.in_labels or found.in_messages:
        raise DataError(
            f"leak audit failed: {found.in_labels:,} held-out links are training labels and {found.in_messages:,} "
            "are in the message graph; pass drop_leaks (--drop-leaks) to remove them."
        )
    return found


def audit_test_view(split: Split, view: GraphView) -> None:
    """Checks that the graph seen when the test links are scored holds none of them."""
    leaks = int(_overlap(split.test.positives, view.links, view.num_nodes, view.directed).sum())
    if leaks:
        raise DataError(f"leak audit failed: {leaks:,} test links are in the message graph used to score them.")


def _overlap(links: Tensor, others: Tensor, num_nodes: int, directed: bool) -> Tensor:
    """bool [E], which of `links` are also among `others`."""
    return torch.isin(link_keys(links, num_nodes, directed), link_keys(others, num_nodes, directed))


def _without(part: HeldOut, wrong: Tensor, per_positive: bool) -> HeldOut:
    negatives = part.negatives
    if negatives is not None and per_positive:
        negatives = negatives[~wrong]
    return HeldOut(part.positives[:, ~wrong], negatives)
