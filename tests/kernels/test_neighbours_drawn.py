"""Fused draws of neighbours and of negatives are those of the references, number by number."""

import pytest
import torch
from fused_case import DEVICE, needs_kernels
from torch import Tensor

from headtail.graph.csr import CSR, row_pointers
from headtail.kernels.known import first_unknown
from headtail.kernels.neighbours import Plan, draw_neighbours

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


def drawn(plan: Plan, rows: int, device: torch.device) -> tuple[CSR, Tensor, Tensor, Tensor, list[Tensor]]:
    graph, diagonal = case(rows, rows)
    generator = torch.Generator().manual_seed(plan.count)
    targets = torch.randperm(97, generator=generator)[:rows]
    expanded = torch.rand(rows, generator=generator) < 0.7
    lengths = plan.lengths(graph.degrees[targets], expanded)
    lengths[rows - rows // 5 :] = 0  # padding
    starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    uniform = torch.rand(rows, plan.count, generator=generator, dtype=torch.float64)
    order = torch.rand(rows, plan.count, generator=generator)
    there = [t.to(device) for t in (graph.row_ptr, diagonal, targets, expanded, starts)]
    found = draw_neighbours(*there, plan, uniform.to(device), order.to(device), int(starts[-1]) + 5)
    return graph, targets, expanded, starts, [t.cpu() for t in (found.entry, found.weight, found.kept)]


@needs_kernels
@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("rows", [0, 1, 5, 64, 97])
def test_fused_draws(plan: Plan, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, found = drawn(plan, rows, DEVICE)
    monkeypatch.setattr("headtail.kernels.neighbours.interpreted", lambda: False)
    *_, wanted = drawn(plan, rows, torch.device("cpu"))
    assert torch.equal(found[0], wanted[0])
    assert torch.equal(found[2], wanted[2])
    torch.testing.assert_close(found[1], wanted[1])


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_rows_are_as_the_method_says(plan: Plan) -> None:
    graph, targets, expanded, starts, (entry, weight, kept) = drawn(plan, 97, torch.device("cpu"))
    assert not weight[int(starts[-1]) :].any()
    seen = set()
    for i, node in enumerate(targets.tolist()):
        here = slice(int(starts[i]), int(starts[i + 1]))
        if here.start == here.stop:
            continue
        assert graph.row[entry[here]].tolist() == [node] * (here.stop - here.start)
        cols, degree = graph.col[entry[here]].tolist(), int(graph.degrees[node])
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


@pytest.mark.parametrize("fixed", ["rows", "cols", "none"])
@pytest.mark.parametrize("links", [0, 1500])
def test_the_first_unknown_proposal(fixed: str, links: int) -> None:
    generator = torch.Generator().manual_seed(links)
    known = CSR.from_links(torch.randint(50, (2, links), generator=generator), 50)
    rows, cols = (torch.randint(50, (1 if fixed == end else 6, 700), generator=generator) for end in ("rows", "cols"))
    there = [t.to(DEVICE) for t in (known.row_ptr, known.col, rows, cols)]
    found = first_unknown(*there).tolist()
    pairs = set(zip(known.row.tolist(), known.col.tolist(), strict=True))
    rows, cols = rows.expand(6, -1), cols.expand(6, -1)
    for p, which in enumerate(found):
        proposals = list(zip(rows[:, p].tolist(), cols[:, p].tolist(), strict=True))
        fine = [i for i, (row, col) in enumerate(proposals) if row != col and (row, col) not in pairs]
        assert which == (fine[0] if fine else -1)
    assert links == 0 or -1 in found
