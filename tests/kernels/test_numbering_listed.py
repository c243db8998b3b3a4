"""Lists of distinct nodes by the fused kernels are those of the reference."""

import pytest
import torch
from fused_case import DEVICE, needs_kernels
from torch import Tensor

from headtail.kernels.numbering import extend_list, marks_shape


def listed(device: torch.device, nodes: int, num_first: int, num_others: int, capacity: int) -> list[Tensor]:
    """Two lists in a row, so that marks must be clean after the first."""
    generator = torch.Generator().manual_seed(nodes + num_first)
    place = torch.zeros(nodes + 1, dtype=torch.int32, device=device)
    marks = torch.zeros(marks_shape(nodes), dtype=torch.int8, device=device)
    results: list[Tensor] = []
    for _ in range(2):
        first = torch.randperm(nodes, generator=generator)[:num_first]
        real = num_first - num_first // 3
        first[real:] = nodes
        others = torch.randint(nodes + 1, (num_others,), generator=generator)
        there = [t.to(device) for t in (first, torch.tensor(real), others)]
        found, count = extend_list(place, marks, *there, capacity)
        chosen = torch.cat([first, others, torch.tensor([nodes])])
        results += [found.cpu(), count.cpu(), place.cpu()[chosen]]
        assert not marks.any()
    return results


@needs_kernels
@pytest.mark.parametrize(
    ("nodes", "num_first", "num_others", "capacity"),
    [(10, 0, 5, 5), (5000, 700, 1300, 2000), (9000, 0, 700, 600), (5000, 40, 1300, 300), (5000, 40, 0, 40)],
)
def test_lists_of_nodes(
    nodes: int, num_first: int, num_others: int, capacity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = listed(DEVICE, nodes, num_first, num_others, capacity)
    monkeypatch.setattr("headtail.kernels.launch.interpreted", lambda: False)
    wanted = listed(torch.device("cpu"), nodes, num_first, num_others, capacity)
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.equal(ours, theirs)
