"""Evidence: what the links around a pair say about it, as a few numbers that the scorer reads beside U ⊙ V.

A scorer that sees only U_i ⊙ V_j cannot count common neighbours. All evidence here costs a look at the shorter row of
a pair and no encoding, so a link stays cheap: O(N·C + |E|·M).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from headtail.errors import ConfigError
from headtail.graph.evidence_kinds import EVIDENCE, Paths
from headtail.graph.kept import Kept, State, within
from headtail.graph.pairs import Pairs, blocks_of
from headtail.graph.tables import Table
from headtail.graph.view import GraphView

# Pairs are looked at in blocks of about this many row entries.
BLOCK_ENTRIES = {"cpu": 2**20, "cuda": 2**24}
# Pairs whose evidence is kept, in case that they are asked about again.
MOST_REMEMBERED = 2**22


class PairEvidence:
    """Several kinds of evidence side by side.

    Args:
        kinds: names of the kinds, in the order of their columns.
        view: the links to look at.
        features: float32 [N, d], the nodes' own; evidence lives on their device.
        kept: what a run kept of the `state` of such evidence.
    """

    def __init__(self, kinds: Sequence[str], view: GraphView, features: Table, kept: Kept | None = None) -> None:
        self.view, self.kinds = view.to(features.device), tuple(kinds)
        self.parts = [
            EVIDENCE[kind](self.view, features)
            if kept is None
            else EVIDENCE[kind].reopened(self.view, features, kept.part(kind))
            for kind in kinds
        ]
        self.width = evidence_width(kinds, view.directed)

    def state(self) -> State:
        """Returns what takes long to make of all kinds."""
        return {
            name: tensor
            for kind, part in zip(self.kinds, self.parts, strict=True)
            for name, tensor in within(kind, part.state()).items()
        }

    @torch.no_grad()
    def __call__(
        self, heads: Tensor, tails: Tensor, near: Tensor | None = None, hidden: Tensor | None = None
    ) -> Tensor:
        """Returns float32 [P, width] for the pairs (heads[p], tails[p]).

        Where it is known, `near` bool [P] tells which pairs have common neighbours or short paths; the rest is
        spared the search. `hidden` [P] is as in `Pairs`.
        """
        out = torch.empty(heads.numel(), self.width, device=heads.device)
        for first, last in self._cuts(heads, tails):
            close, unseen = (None if each is None else each[first:last] for each in (near, hidden))
            pairs = Pairs(self.view, heads[first:last], tails[first:last], close, unseen)
            columns = [column for part in self.parts for column in part.columns(pairs)]
            out[first:last] = torch.stack(columns, dim=1)
        return out

    @torch.no_grad()
    def rows(self, heads: Tensor, first: int, last: int, one_way: bool) -> tuple[Tensor, Tensor | None]:
        """Returns float32 [B, last − first, width], every head against the tails first … last − 1.

        Unless `one_way`, also those of the same pairs with their ends exchanged.
        """
        tails = torch.arange(first, last, device=heads.device)
        near = self._near(heads, one_way)[:, first:last].reshape(-1)
        head, tail = heads.repeat_interleave(tails.numel()), tails.repeat(heads.numel())
        shape = heads.numel(), tails.numel(), self.width
        return self(head, tail, near).view(shape), None if one_way else self(tail, head, near).view(shape)

    def _near(self, heads: Tensor, one_way: bool) -> Tensor:
        """Returns bool [B, N], the nodes that two steps between neighbours, or a short path, reach from each head.

        Unless `one_way`, also those that a short path leads from to the head.
        """
        near = torch.zeros(heads.numel(), self.view.num_nodes, dtype=torch.bool, device=heads.device)
        neighbours = self.view.neighbours
        steps = [(neighbours, neighbours)]
        for part in self.parts:
            if isinstance(part, Paths):
                steps.append((part.paths.shared, self.view.out_rows))
                if not one_way:  # a path that is walked back leaves out other hubs
                    steps.append((self.view.in_rows, part.paths.shared))
        for place, head in enumerate(heads):
            for one, two in steps:
                _, middle = one.entries_of(head[None])
                _, end = two.entries_of(one.col[middle])
                near[place, two.col[end]] = True
        return near

    def _cuts(self, heads: Tensor, tails: Tensor) -> list[tuple[int, int]]:
        """Cuts the pairs into blocks of bounded work."""
        degree = self.view.neighbours.degrees
        work = torch.minimum(degree[heads], degree[tails]) + self.view.in_rows.degrees[tails] + 64
        return blocks_of(work.clamp(max=1024), BLOCK_ENTRIES[heads.device.type])


Memory = dict[tuple[int, ...], tuple[Tensor, Tensor, Tensor]]


class RememberedEvidence:
    """Evidence that is looked up once for pairs that are asked about again and again, as in every validation.

    Args:
        evidence: of one view.
        memory: where pairs and their evidence are kept, up to a bound; of the same view always.
    """

    def __init__(self, evidence: PairEvidence, memory: Memory) -> None:
        self.evidence, self.width, self._memory = evidence, evidence.width, memory

    @torch.no_grad()
    def __call__(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Returns float32 [P, width] for the pairs (heads[p], tails[p])."""
        if heads.numel() == 0:
            return self.evidence(heads, tails)
        key = (heads.numel(), *(int(node) for node in (heads[0], tails[0], heads[-1], tails[-1])))
        known = self._memory.get(key)
        if known is not None and torch.equal(known[0], heads) and torch.equal(known[1], tails):
            return known[2]
        found = self.evidence(heads, tails)
        if sum(kept[0].numel() for kept in self._memory.values()) + heads.numel() <= MOST_REMEMBERED:
            self._memory[key] = (heads, tails, found)
        return found

    def rows(self, heads: Tensor, first: int, last: int, one_way: bool) -> tuple[Tensor, Tensor | None]:
        """Returns what the evidence itself does: rows are not remembered."""
        return self.evidence.rows(heads, first, last, one_way)


def choose_evidence(setting: str, view: GraphView, described: bool) -> tuple[str, ...]:
    """Returns the kinds that a setting such as "degrees,common,ages" names and the data allow; "none" is none.

    Ages are left out where links are not dated, or all of one date; similarity unless the nodes are `described` by
    features of their own, since structural ones would tell of the very links that are to be learned.

    Raises:
        ConfigError: a name is unknown, with the nearest right one.
    """
    names = [name.strip() for name in setting.split(",")]
    if names == ["none"]:
        return ()
    if len(set(names)) < len(names):
        raise ConfigError(f"evidence {setting!r} names a kind twice.")
    for name in names:
        EVIDENCE[name]
    dated = view.times is not None and torch.unique(view.times).numel() > 1
    missing = {"ages": not dated, "similarity": not described}
    return tuple(name for name in names if not missing.get(name, False))


def evidence_width(kinds: Sequence[str], directed: bool) -> int:
    """Returns how many columns these kinds have."""
    return sum(EVIDENCE[kind].width[0 if directed else 1] for kind in kinds)
