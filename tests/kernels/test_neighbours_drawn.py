"""Fused draws of neighbours and of negatives are those of the references, number by number."""

import pytest
import torch
from fused_case import DEVICE, needs_kernels
from torch import Tensor

from headtail.graph.csr import CSR, row_pointers
from headtail.kernels.known import first_unknown
from headtail.kernels.neighbours import Adjacency, Drawn, Plan, all_neighbours, draw_neighbours, laid_out

PLANS = [Plan(1), Plan(4), Plan(2, 2, 1.0), Plan(7, 7, 1.0), Plan(7, 7), Plan(4, 20, 5.0)]


def case(rows: int, seed: int) -> tuple[CSR, Tensor]:
    """A graph whose rows have 1 to 60 entries, itself among them, the last row all nodes; and where self-loops are."""
    generator = torch.Generator().manual_seed(seed)
    nodes = 97
    wanted = torch.randint(0, 60, (nodes, 1), generator=generator)
    wanted[-1] = nodes
    chosen = torch.rand(nodes, nodes, generator=generator).argsort(dim=1) < wanted
    chosen |= torch.eye(nodes, dtype=torch.bool)
    row, col = chosen.nonzero(as_tuple=True)
    graph = CSR(row_pointers(row, nodes), col, nodes)
    return graph, (graph.row == graph.col).nonzero().squeeze(1)


def drawn(
    plan: Plan | None, rows: int, device: torch.device, weighted: bool = False, fits: bool = True
) -> tuple[CSR, Tensor, Tensor, Tensor, Drawn]:
    """A graph, targets of which the last fifth are padding, which of them are expanded, starts, and what is drawn."""
    graph, diagonal = case(rows, rows)
    count = 1 if plan is None else plan.count
    generator = torch.Generator().manual_seed(count)
    targets = torch.randperm(97, generator=generator)[:rows]
    targets[rows - rows // 5 :] = 97
    expanded = (torch.rand(rows, generator=generator) < 0.7) & (targets < 97)
    uniform = torch.rand(rows, count, generator=generator, dtype=torch.float64)
    order = torch.rand(rows, count, generator=generator)
    relative = torch.rand(graph.col.numel(), generator=generator).to(device) if weighted else None
    adjacency = Adjacency(*(t.to(device) for t in (graph.row_ptr, graph.col, diagonal)), relative)
    there = targets.to(device), expanded.to(device)
    asked = int(laid_out(adjacency, *there, plan, 10**6).asked)
    laid = laid_out(adjacency, *there, plan, asked - (not fits))
    assert int(laid.asked) == asked
    assert int(laid.opened) == int(expanded.sum())
    if plan is None:
        found = all_neighbours(adjacency, *there, laid.starts, asked + 5, 97)
    else:
        found = draw_neighbours(
            adjacency, *there, laid.starts, plan, uniform.to(device), order.to(device), asked + 5, 97
        )
    found = Drawn(*(t.cpu() for t in (found.node, found.row, found.weight, found.kept)))
    return graph, targets, expanded, laid.starts.cpu(), found


@needs_kernels
@pytest.mark.parametrize("plan", [None, *PLANS], ids=str)
@pytest.mark.parametrize(
    ("rows", "weighted", "fits"), [(1, False, True), (64, True, True), (97, False, True), (97, True, False)]
)
def test_fused_draws(plan: Plan | None, rows: int, weighted: bool, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, starts, found = drawn(plan, rows, DEVICE, weighted, fits)
    monkeypatch.setattr("headtail.kernels.launch.interpreted", lambda: False)
    *_, wanted_starts, wanted = drawn(plan, rows, torch.device("cpu"), weighted, fits)
    assert torch.equal(starts, wanted_starts)
    assert torch.equal(found.node, wanted.node)
    assert torch.equal(found.row, wanted.row)
    assert torch.equal(found.kept, wanted.kept)
    torch.testing.assert_close(found.weight, wanted.weight)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_rows_are_as_the_method_says(plan: Plan) -> None:
    graph, targets, expanded, starts, found = drawn(plan, 97, torch.device("cpu"))
    weight, kept, padding = found.weight, found.kept, slice(int(starts[-1]), None)
    assert not weight[padding].any()
    assert found.node[padding].tolist() == [97] * 5
    seen = set()
    for i, node in enumerate(targets.tolist()):
        here = slice(int(starts[i]), int(starts[i + 1]))
        if here.start == here.stop:
            continue
        assert found.row[here].tolist() == [i] * (here.stop - here.start)
        cols, degree = found.node[here].tolist(), int(graph.degrees[node])
        assert graph.contains(torch.full((len(cols),), node), found.node[here]).all()
        assert float(weight[here].sum()) == pytest.approx(1)
        if not expanded[i]:
            assert cols == [node]
            assert not kept[here].any()
            continue
        sampled = cols[: min(degree, plan.count)]
        assert len(set(sampled)) == len(sampled) == min(degree, plan.count)
        assert int(kept[here].sum()) == min(degree, plan.keep)
        relative = (weight[here] / weight[here].min()).tolist()
        long = degree > plan.count
        assert cols[len(sampled) :] == ([node] if long and plan.ratio is not None else [])
        if plan.ratio is None:
            assert relative == pytest.approx([1.0] * len(relative))
        else:
            heavy = plan.ratio if long else max(1.0, (degree - plan.keep) / plan.keep)
            rest = len(cols) - min(degree, plan.keep)
            wanted = [heavy] * min(degree, plan.keep) + [1.0] * rest
            assert relative == pytest.approx([value / min(wanted) for value in wanted], rel=1e-5)
        seen.add((long, degree > plan.keep))
    assert len(seen) >= 2


@pytest.mark.parametrize("links", [0, 1500])
def test_the_first_unknown_proposal(links: int) -> None:
    generator = torch.Generator().manual_seed(links)
    known = CSR.from_links(torch.randint(50, (2, links), generator=generator), 50)
    rows, cols = (torch.randint(50, (6, 700), generator=generator) for _ in range(2))
    period, count = 350, 320
    there = [t.to(DEVICE) for t in (known.row_ptr, known.col, rows, cols)]
    found = first_unknown(*there, period, torch.tensor(count, device=DEVICE), 50)
    pairs = set(zip(known.row.tolist(), known.col.tolist(), strict=True))
    none = 0
    for p, pick in enumerate(zip(*found.tolist(), strict=True)):
        proposals = zip(rows[:, p].tolist(), cols[:, p].tolist(), strict=True)
        fine = [each for each in proposals if each[0] != each[1] and each not in pairs]
        assert pick == (fine[0] if fine and p % period < count else (50, 50))
        none += not fine
    assert links == 0 or none
