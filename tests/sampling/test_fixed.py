"""Batches of fixed size against the batches that are drawn as they come."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from headtail.graph.view import GraphView
from headtail.kernels.neighbours import rows_of_entries
from headtail.nn.models import MODELS, ModelShape
from headtail.sampling.batches import BATCHES, Positives
from headtail.sampling.fixed import Fixed, FixedSampler, Sizes
from headtail.sampling.fixed_numbering import FixedNumbering
from headtail.sampling.fixed_sizes import MOST_SIZES, UNIT, positives_of, rooms, sizes_for
from headtail.sampling.negatives import NEGATIVES, Negatives, NegativeSpace
from headtail.sampling.neighbours import NEIGHBOURS, Fanout
from headtail.sampling.numbering import Numbering
from headtail.sampling.padding import tensors_of
from headtail.sampling.sampler import Batch, BatchSampler, GnnScope, number_pairs
from headtail.training.objectives import PaddedShares, cross_entropy
from random_graphs import message_graph, random_view

NODES = 60


def sampler_of(
    device: torch.device,
    kind: str = "rows",
    scope: GnnScope = "rows",
    neighbours: str = "bns",
    fanout: Fanout | None = None,
    negatives: str = "uniform",
    per_positive: int = 1,
    layers: int = 3,
) -> BatchSampler:
    view: GraphView = random_view(NODES, 300).to(device)
    graph, rows = message_graph(view, dim=5, device=device), view.out_rows
    return BatchSampler(
        graph=graph,
        batches=BATCHES[kind](rows, rows.col.numel() // 4),
        negatives=negatives,
        negatives_per_positive=per_positive,
        negative_space=NegativeSpace(rows),
        neighbours=NEIGHBOURS[neighbours](fanout or Fanout(3, 2)),
        gnn_scope=scope,
        layers=layers,
        reads_features=True,
    )


def generator_of(sampler: BatchSampler, seed: int = 0) -> torch.Generator:
    return torch.Generator(device=sampler.graph.device).manual_seed(seed)


def epoch_of(sampler: BatchSampler, seed: int = 0, sizes: Sizes | None = None) -> tuple[Tensor, list[Fixed]]:
    """Returns the order of an epoch's items, and all its batches."""
    order, plans = sampler.batches.order(generator_of(sampler, seed)), sampler.plans
    assert plans is not None
    fixed = FixedSampler(sampler, plans, sizes or sizes_for(sampler, plans, [order], seed)[-1])
    fixed.begin(order)
    generator = generator_of(sampler, seed + 1)
    return order, [fixed.draw(generator) for _ in range(len(sampler))]


def pairs_of(found: Fixed) -> tuple[Positives, Negatives]:
    """Returns the pairs of a batch as nodes, without padding."""
    fits, positives, pairs, *_ = found.facts.tolist()
    assert fits
    left, right = (found.batch.nodes[end] for end in found.batch.pairs.pairs[:, :pairs])
    negatives = Negatives(left[positives:], right[positives:], found.batch.negative_of[positives:pairs])
    return Positives(left[:positives], right[:positives], None), negatives


CASES = [("rows", "rows"), ("rows", "all"), ("rows", "none"), ("edges", "all"), ("edges", "rows")]


@pytest.mark.parametrize(("kind", "scope"), CASES)
def test_an_epoch_has_every_link_once_in_its_batch(kind: str, scope: GnnScope, device: torch.device) -> None:
    sampler = sampler_of(device, kind, scope)
    order, batches = epoch_of(sampler)
    for items, found in zip(order.tensor_split(len(sampler)), batches, strict=True):
        wanted, (positives, _) = sampler.batches.positives(items), pairs_of(found)
        assert torch.equal(positives.row, wanted.row)
        assert torch.equal(positives.col, wanted.col)


@pytest.mark.parametrize("negatives", sorted(NEGATIVES))
@pytest.mark.parametrize("per_positive", [1, 3])
def test_negatives_are_unknown_and_belong_to_their_positives(
    negatives: str, per_positive: int, device: torch.device
) -> None:
    sampler = sampler_of(device, negatives=negatives, per_positive=per_positive)
    for found in epoch_of(sampler)[1]:
        positives, drawn = pairs_of(found)
        assert not sampler.negative_space.known.contains(drawn.row, drawn.col).any()
        assert (drawn.row != drawn.col).all()
        assert drawn.positive.numel() > 0.9 * per_positive * positives.row.numel()
        if negatives != "uniform":
            assert torch.equal(drawn.row, positives.row[drawn.positive])
        assert torch.equal(drawn.positive.unique(), torch.arange(positives.row.numel(), device=device))


@pytest.mark.parametrize("per_positive", [1, 3])
def test_none_of_the_padding_belongs_to_one_positive(per_positive: int, device: torch.device) -> None:
    """Else a backward pass would sum it up one by one."""
    for found in epoch_of(sampler_of(device, per_positive=per_positive))[1]:
        assert int(found.batch.negative_of.bincount().max()) <= 1 + per_positive


@pytest.mark.slow
@pytest.mark.parametrize("fanout", [Fanout(3, 2), Fanout(None, 2)])
def test_epochs_of_graphs_with_hubs_fit(fanout: Fanout) -> None:
    generator = torch.Generator().manual_seed(0)
    nodes, hubs = 3000, 5
    some = torch.randint(nodes, (2, 4000), generator=generator)
    spokes = torch.stack(
        [torch.arange(hubs).repeat_interleave(800), torch.randint(nodes, (hubs * 800,), generator=generator)]
    )
    links = torch.cat([some, spokes], dim=1)
    view = GraphView(nodes, False, links[:, links[0] != links[1]])
    rows = view.out_rows
    sampler = replace(
        sampler_of(torch.device("cpu"), fanout=fanout),
        graph=message_graph(view, dim=5),
        batches=BATCHES["rows"](rows, rows.col.numel() // 16),
        negative_space=NegativeSpace(rows),
    )
    plans = sampler.plans
    assert plans is not None
    orders = [sampler.batches.order(generator_of(sampler, seed)) for seed in range(5)]
    sizes = sizes_for(sampler, plans, orders, seed=0)[-1]
    fits = [int(found.facts[0]) for seed in range(5) for found in epoch_of(sampler, seed, sizes)[1]]
    assert all(fits)


def plain(sampler: BatchSampler, found: Fixed) -> Batch:
    """Returns the batch of the same pairs, drawn as it comes."""
    positives, negatives = pairs_of(found)
    numbering = Numbering(NODES, sampler.graph.device)
    batch = number_pairs(positives, negatives, numbering)
    if sampler.gnn_scope == "none":
        return replace(batch, graph=sampler.graph)
    targets = batch.nodes if sampler.gnn_scope == "all" else batch.nodes[: batch.num_rows]
    drawn = sampler.neighbours.sample(sampler.graph, targets, sampler.layers, numbering, generator_of(sampler), True)
    return replace(batch, graph=sampler.graph, neighbourhood=drawn)


METHODS = {"rows": "aml", "all": "symmetric", "none": "smlp"}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "scope"), CASES)
@pytest.mark.parametrize("fanout", [Fanout(NODES, NODES), Fanout(None, NODES)])
def test_with_all_neighbours_the_same_is_learned(
    kind: str, scope: GnnScope, fanout: Fanout, device: torch.device
) -> None:
    sampler = sampler_of(device, kind, scope, fanout=fanout)
    torch.manual_seed(0)
    model = MODELS[METHODS[scope]](ModelShape(in_dim=5, dim=8)).to(device)
    for found in epoch_of(sampler)[1]:
        wanted, positives = plain(sampler, found), found.facts.tolist()[1]
        gradients = []
        for batch in (found.batch, wanted):
            model.zero_grad()
            logits = model.logits(sampler.graph, batch)
            if batch.counts is None:
                loss = cross_entropy(logits[:positives], logits[positives:], batch.negative_of)
            else:
                loss = cross_entropy(logits, logits, batch.negative_of, PaddedShares(batch.counts, logits.numel()))
            loss.backward()
            gradients.append([loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
        for have, want in zip(*gradients, strict=True):
            torch.testing.assert_close(have, want, rtol=1e-3, atol=1e-5)
        *_, nodes, expanded, targets = found.facts.tolist()
        assert nodes == wanted.nodes.numel()
        blocks = [] if wanted.neighbourhood is None else wanted.neighbourhood.blocks
        assert (expanded, targets) == (sum(b.num_expanded for b in blocks), sum(b.num_targets for b in blocks))


@pytest.mark.parametrize("neighbours", ["bns", "uniform"])
def test_rows_have_as_many_neighbours_of_the_same_weights_as_when_drawn_plainly(
    neighbours: str, device: torch.device
) -> None:
    sampler = sampler_of(device, neighbours=neighbours, layers=2)
    for found in epoch_of(sampler)[1]:
        have, want = found.batch.neighbourhood, plain(sampler, found).neighbourhood
        assert have is not None
        assert want is not None
        mine, its = have.blocks[1].adjacency, want.blocks[1].adjacency
        rows = its.num_rows
        assert torch.equal(mine.degrees[:rows], its.degrees)
        assert not mine.degrees[rows:].any()
        assert mine.weight is not None
        assert its.weight is not None
        for row in range(rows):
            ours, theirs = (csr.weight[csr.row_ptr[row] : csr.row_ptr[row + 1]].sort().values for csr in (mine, its))
            torch.testing.assert_close(ours, theirs)
        # Every entry is a link of the graph or the node itself, and none is drawn twice but the node itself.
        nodes, owner = have.nodes, torch.repeat_interleave(mine.degrees)
        heads, tails = nodes[owner], nodes[mine.col[: owner.numel()]]
        assert sampler.graph.adjacency.contains(heads, tails).all()
        others = heads != tails
        assert (heads * NODES + tails)[others].unique().numel() == int(others.sum())


def test_transposed_blocks_are_those_of_the_blocks(device: torch.device) -> None:
    for found in epoch_of(sampler_of(device))[1]:
        assert found.batch.neighbourhood is not None
        for block in found.batch.neighbourhood.blocks[1:]:
            rows = torch.repeat_interleave(block.adjacency.degrees)
            real = rows.numel()
            x = torch.randn(block.num_targets, 3, device=device, dtype=torch.float64)
            assert block.adjacency.weight is not None
            wanted = torch.zeros(block.adjacency.num_cols, 3, device=device, dtype=torch.float64)
            values = block.adjacency.weight[:real, None].double() * x[rows]
            wanted.index_add_(0, block.adjacency.col[:real], values)
            back = block.adjacency.transposed
            assert back.weight is not None
            found_sum = torch.zeros_like(wanted)
            owner = torch.repeat_interleave(back.row_ptr.diff())
            found_sum.index_add_(0, owner, back.weight[: owner.numel(), None].double() * x[back.col[: owner.numel()]])
            torch.testing.assert_close(found_sum, wanted)


SMALL = [
    Sizes(60, 40, 60, ((60, 300), (60, 300), (60, 300))),
    Sizes(3, 400, 60, ((3, 300), (60, 300), (60, 300))),
    Sizes(20, 400, 20, ((20, 300), (60, 300), (60, 300))),
    Sizes(60, 400, 60, ((60, 5), (60, 300), (60, 300))),
    Sizes(60, 400, 60, ((60, 300), (60, 9), (60, 300))),
    Sizes(15, 400, 60, ((15, 300), (17, 300), (60, 300))),
]


@pytest.mark.parametrize("sizes", SMALL, ids=str)
def test_a_batch_that_does_not_fit_says_so(sizes: Sizes, device: torch.device) -> None:
    _, batches = epoch_of(sampler_of(device), sizes=sizes)
    assert any(not int(found.facts[0]) for found in batches)
    for found in batches:  # what is in it is of no use, but inside of its memory
        for tensor in tensors_of(found.batch):
            assert not tensor.numel() or int(tensor.max()) < 10_000


@pytest.mark.slow
def test_sizes_hold_what_epochs_need() -> None:
    sampler = sampler_of(torch.device("cpu"))
    orders = [sampler.batches.order(generator_of(sampler, seed)) for seed in range(20)]
    plans = sampler.plans
    assert plans is not None
    *_, sizes = sizes_for(sampler, plans, orders, seed=3)
    counts = [
        sampler.batches.positives(items).row.numel() for order in orders for items in order.tensor_split(len(sampler))
    ]
    assert torch.cat([positives_of(sampler, order) for order in orders]).tolist() == counts
    assert max(counts) <= sizes.positives < max(counts) + UNIT
    assert sizes == sizes_for(sampler, plans, orders, seed=3)[-1]
    for seed in range(20):
        assert all(int(found.facts[0]) for found in epoch_of(sampler, seed, sizes)[1])


def test_rows_list_their_entries() -> None:
    row, real = rows_of_entries(torch.tensor([0, 2, 2, 5]), 7)
    assert row.tolist() == [0, 0, 2, 2, 2, 2, 2]
    assert real.tolist() == [True] * 5 + [False] * 2


def test_numbers_are_places_in_the_list() -> None:
    numbering = FixedNumbering(10, torch.device("cpu"))
    first, count = torch.tensor([7, 2, 10, 10]), torch.tensor(2)
    nodes, found = numbering.extend(first, count, torch.tensor([9, 2, 10, 3, 9]), 6)
    assert nodes.tolist() == [7, 2, 3, 9, 10, 10]
    assert int(found) == 4
    assert numbering.local(torch.tensor([3, 7, 9, 10, 2])).tolist() == [2, 0, 3, 6, 1]
    few, found = numbering.distinct(torch.tensor([5, 1, 10, 5, 8]), 2)
    assert few.tolist() == [1, 5]
    assert int(found) == 3


def test_rooms_hold_every_batch_and_leave_little_unused() -> None:
    generator = torch.Generator().manual_seed(0)
    usual = (60_000 * (1 + 0.05 * torch.randn(900, generator=generator))).long()
    counts = torch.cat([usual, torch.tensor([90_000, 120_000, 180_000])])
    found = rooms(counts)
    assert 1 < len(found) <= MOST_SIZES
    assert list(found) == sorted(found)
    assert int(counts.max()) <= found[-1] < int(counts.max()) + UNIT
    taken = torch.tensor(found)[torch.searchsorted(torch.tensor(found), counts)]
    assert bool((taken >= counts).all())
    assert float(taken.sum()) < 1.1 * float(counts.sum())
    assert len(rooms(counts[:30])) == 1  # too few to be worth recording twice
    assert rooms(torch.full((50,), 1000)) == (1024,)
    assert rooms(torch.zeros(3, dtype=torch.int64)) == (UNIT,)
