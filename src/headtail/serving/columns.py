"""What the second stage reads of a head's candidates: the word of every source, their ends, and features compared."""

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from headtail.errors import RunError
from headtail.graph.csr import all_entries
from headtail.graph.matrix import Nodes
from headtail.serving.candidates import Lists
from headtail.serving.sight import Sight

# A head's numbers of links are told in steps of about 2. A candidate's are not told at all: they would name single
# nodes, and what is learned of nodes that were sought after for a while does not last (docs/strong.md).
STEP = 0.7
# A head's tails whose features are compared with every candidate one by one; the mean is of all.
TAILS_COMPARED = 20
# How far from the mean anything counts as, in deviations.
FARTHEST = 8.0
# Columns that are read off features.
FEATURE_COLUMNS = (
    *("alike", "place: alike", "like head", "like tails", "like its heads", "both", "like its tails", "like a tail"),
)


def columns_of(lists: Lists, sight: Sight, wanted: Collection[str] | None = None) -> dict[str, Tensor]:
    """Returns columns of candidates by name, float32 [B, T]; what they say where a tail is −1 means nothing.

    Args:
        wanted: the columns that are needed at least; None: all.
    """
    found = link_columns(lists, sight)
    if wanted is not None and found.keys() >= set(wanted):
        return found
    return found | feature_columns(lists.heads, lists.tails, sight)


def link_columns(lists: Lists, sight: Sight) -> dict[str, Tensor]:
    """Returns the columns that are read off links."""
    there = lists.tails >= 0
    tails = lists.tails.clamp(min=0)
    found = dict(lists.values)
    found |= {f"place: {name}": places(values.masked_fill(~there, -torch.inf)) for name, values in lists.values.items()}
    found["candidates"] = _steps(there.sum(dim=1, keepdim=True)).expand_as(tails)
    degrees = {"out": sight.out_degree, "in": sight.in_degree}
    if sight.dated:
        degrees |= {"new out": sight.newest.out_degree, "new in": sight.newest.in_degree}
    for way, degree in degrees.items():
        found[f"{way} of head"] = _steps(_at(degree, lists.heads))[:, None].expand_as(tails)
    if "paths" in found:
        found["paths per head"] = found["paths"] / _at(sight.in_degree, tails).clamp(min=1)
        found["paths per tail"] = found["paths"] / _at(sight.out_degree, lists.heads)[:, None].clamp(min=1)
    return found


def feature_columns(heads: Tensor, tails: Tensor, sight: Sight) -> dict[str, Tensor]:
    """Returns the columns that are read off features of heads [B] and tails [B, T], if there are any.

    They are cosines of head and candidate, and of each with what the other is linked with.
    """
    if sight.described is None:
        return {}
    table, width = sight.described_links, sight.described.rows.shape[1]
    own, mean = table[heads, :width], table[heads, width : 2 * width]
    read = table[tails.clamp(min=0)]  # [B, T, 3 · d], once for all
    asked = torch.cat([torch.stack([own, mean], dim=1), _some_tails(heads, sight)], dim=1)
    candidate = read[..., :width] @ asked.transpose(1, 2)
    its_heads = read[..., 2 * width :] @ asked[:, :2].transpose(1, 2)
    return {
        "like head": candidate[..., 0],
        "like tails": candidate[..., 1],
        "like a tail": candidate[..., 2:].relu().amax(dim=2),
        "like its heads": its_heads[..., 0],
        "both": its_heads[..., 1],
        "like its tails": (read[..., width : 2 * width] @ mean[:, :, None]).squeeze(2),
    }


def table_of(columns: Mapping[str, Tensor], names: Sequence[str], chosen: Tensor) -> Tensor:
    """Returns float32 [C, columns] of the named columns, for the candidates that are `chosen` (bool [B, T]).

    Raises:
        RunError: there is no such column.
    """
    missing = [name for name in names if name not in columns]
    if missing:
        raise RunError(f"the second stage reads {missing[0]!r}, which this graph does not have; train again.")
    return torch.stack([columns[name][chosen] for name in names], dim=1)


def first_of(values: Tensor, there: Tensor, most: int) -> Tensor:
    """Returns bool [B, T]: the `most` largest values of every row that are `there`, equals by their order."""
    order = values.masked_fill(~there, -torch.inf).argsort(dim=1, descending=True, stable=True)
    return torch.zeros_like(there).scatter_(1, order[:, :most], True) & there


def standing(values: Tensor, there: Tensor, least: float = 1e-3) -> Tensor:
    """Returns float32 [B, T]: how many deviations each value of a row is above the mean of those that are `there`.

    Args:
        least: what is added to the variance, so that rows of equals stand at 0.
    """
    count = there.sum(dim=1, keepdim=True).clamp(min=1)
    values = values.masked_fill(~there, 0.0)
    above = values - values.sum(dim=1, keepdim=True) / count
    variance = above.square().masked_fill(~there, 0.0).sum(dim=1, keepdim=True) / count
    return (above / (variance + least).sqrt()).clamp(-FARTHEST, FARTHEST)


def places(values: Tensor) -> Tensor:
    """Returns float32 [B, T], the logarithm of the place of each value in its row, the largest first."""
    order = values.argsort(dim=1, descending=True, stable=True)
    place = torch.empty_like(order).scatter_(1, order, torch.arange(values.shape[1]).expand_as(order))
    return place.float().log1p()


def _steps(counts: Tensor) -> Tensor:
    return (counts.float().log1p() / STEP).round()


def _at(degree: Nodes, nodes: Tensor) -> Tensor:
    return torch.from_numpy(degree)[nodes].float()


def _some_tails(heads: Tensor, sight: Sight) -> Tensor:
    """Returns [B, at most TAILS_COMPARED, d], features of the first tails of every head, zeros where there are none."""
    assert sight.described is not None
    links, rows = sight.view.out_rows, sight.described.rows
    counts = links.degrees[heads].clamp(max=TAILS_COMPARED)
    owner, place = all_entries(counts)
    others = torch.zeros(heads.numel(), max(1, int(counts.max())), rows.shape[1])
    others[owner, place] = rows[links.col[links.row_ptr[heads][owner] + place]]
    return others
