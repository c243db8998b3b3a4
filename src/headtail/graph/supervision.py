"""Which training links are learned from, and which are the evidence for them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headtail.graph.view import GraphView

# The newest moments are learned from until they hold this share of all links.
NEWEST_SHARE = 0.1
# With fewer newest links between known nodes than this share of all links, there is too little to learn from.
LEAST_SHARE = 0.005


@dataclass(frozen=True)
class Supervision:
    """Links [2, E] to learn from, the view they are predicted from, and a sentence about it for the user."""

    links: Tensor
    view: GraphView
    note: str | None = None


def supervise(view: GraphView, how: str) -> Supervision:
    """Chooses the links to learn from: "all", or the "newest" given the older ones, where links are dated.

    Of the newest links those between nodes with an older link count: of others there is no evidence. The moments at
    hand are cut where the newest ones hold a tenth of all links; no moment is cut in two.
    """
    if how == "all" or view.times is None:
        return Supervision(view.links, view)
    moments, counts = torch.unique(view.times, return_counts=True)
    newest_first = counts.flip(0).cumsum(0)
    cut = int((newest_first < NEWEST_SHARE * counts.sum()).sum())  # moments after the first one to learn from
    if cut >= moments.numel() - 1:
        return Supervision(view.links, view, "nearly all links are of the oldest date, so all are learned from")
    since = moments[moments.numel() - 1 - cut]
    older = view.times < since
    known = torch.zeros(view.num_nodes, dtype=torch.bool)
    known[view.links[:, older].flatten()] = True
    newest = ~older & known[view.links].all(dim=0)
    if int(newest.sum()) < LEAST_SHARE * older.numel():
        return Supervision(
            view.links, view, "too few of the newest links are between known nodes, so all links are learned from"
        )
    times = view.times[older]
    evidence = GraphView(view.num_nodes, view.directed, view.links[:, older], times)
    note = (
        f"learning from the {int(newest.sum()):,} newest links between known nodes (since {int(since)}), "
        f"given the {int(older.sum()):,} older ones"
    )
    return Supervision(view.links[:, newest], evidence, note)
