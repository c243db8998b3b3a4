"""The leak audit: proof that no more of the held-out links is seen than the protocol says.

Under the protocol `clean` none is: neither in the message graph nor among the training labels. `ogb` takes a split as
it was published, so a training link that is also held out stays and is counted. `val-as-train` also trains on the
validation links, so that only the test links are held out; a validation link that is also a test link stays too.

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
        held_out: links checked: validation and test links, under val-as-train the test links.
        in_labels, in_messages: held-out links found among training labels and in the message graph (both 0 under
            the protocol clean).
        reversed_links: directed only, training links that run against a held-out link.
        dropped: training links removed because they overlapped.
        kept: training links that are also held out.
        in_test_graph: test links in the message graph used to score them.
        protocol: what the audit holds the split to.
    """

    held_out: int
    in_labels: int
    in_messages: int
    reversed_links: int
    dropped: int
    kept: int = 0
    in_test_graph: int = 0
    protocol: str = "clean"

    def __str__(self) -> str:
        text = self._verdict()
        if self.in_test_graph:
            text += f"; the graph that the test is scored with holds {self.in_test_graph:,} test links"
        if self.reversed_links:
            text += f"; {self.reversed_links:,} training links run the other way of one"
            if self.protocol == "clean":
                text += " (drop_reversed removes them)"
        if self.dropped:
            text += f"; {self.dropped:,} overlapping training links were dropped"
        return text

    def _verdict(self) -> str:
        none = f"none of {self.held_out:,} {{}} links is in the message graph or the training labels"
        if self.protocol == "clean":
            return f"leak audit passed: {none.format('held-out')}"
        if self.protocol == "val-as-train":
            also = (
                f"{self.kept:,} training links are also test links and are kept" if self.kept else none.format("test")
            )
            return f"protocol val-as-train trains on the validation links; {also}"
        if self.kept:
            return f"{self.kept:,} training links are also held out; protocol {self.protocol} keeps them"
        return f"leak audit passed (protocol {self.protocol}): {none.format('held-out')}"


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


def audit(
    split: Split, labels: CSR, messages: CSR, num_nodes: int, directed: bool, dropped: int, protocol: str = "clean"
) -> LeakAudit:
    """Checks the very structures that training reads: label rows and the message graph.

    Raises:
        DataError: they show a held-out link that the protocol does not let them show, or training lacks a
            validation link that the protocol trains on.
    """
    held_out = split.test.positives
    if protocol != "val-as-train":
        held_out = torch.cat([split.valid.positives, held_out], dim=1)
    elif not labels.contains(*split.valid.positives).all():
        raise DataError("leak audit failed: protocol val-as-train, but not all validation links are training labels.")
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
    kept, allowed = 0, torch.zeros_like(in_labels)
    if protocol != "clean":
        kept = int(_overlap(split.train, held_out, num_nodes, directed).sum())
        allowed = _overlap(held_out, split.train, num_nodes, directed)
    wrong_labels, wrong_messages = int((in_labels & ~allowed).sum()), int((in_messages & ~allowed).sum())
    if wrong_labels or wrong_messages:
        raise DataError(
            f"leak audit failed: {wrong_labels:,} held-out links are training labels and {wrong_messages:,} "
            "are in the message graph; pass drop_leaks (--drop-leaks) to remove them."
        )
    return LeakAudit(
        held_out=held_out.shape[1],
        in_labels=int(in_labels.sum()),
        in_messages=int(in_messages.sum()),
        reversed_links=int(reverse.sum()),
        dropped=dropped,
        kept=kept,
        protocol=protocol,
    )


def audit_test_view(split: Split, view: GraphView, protocol: str = "clean") -> int:
    """Counts the test links in the graph that is seen when they are scored.

    Raises:
        DataError: there are some, and the protocol is clean.
    """
    leaks = int(view.out_rows.contains(*split.test.positives).sum())
    if leaks and protocol == "clean":
        raise DataError(f"leak audit failed: {leaks:,} test links are in the message graph used to score them.")
    return leaks


def _overlap(links: Tensor, others: Tensor, num_nodes: int, directed: bool) -> Tensor:
    """bool [E], which of `links` are also among `others`."""
    return torch.isin(link_keys(links, num_nodes, directed), link_keys(others, num_nodes, directed))


def _without(part: HeldOut, wrong: Tensor, per_positive: bool) -> HeldOut:
    negatives, times = part.negatives, part.times
    if negatives is not None and per_positive:
        negatives = negatives[~wrong]
    return HeldOut(part.positives[:, ~wrong], negatives, None if times is None else times[~wrong])
