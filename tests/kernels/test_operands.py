"""Sums of weights made by one kernel against torch's own."""

import pytest
import torch
from fused_case import DEVICE, needs_kernels
from torch import Tensor, nn

from headtail.kernels.operands import Operands, operand
from headtail.kernels.product import Parts

pytestmark = needs_kernels


def weight(*shape: int, seed: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE))


SUMS: list[Parts] = [
    (weight(7, seed=0), weight(7, seed=1)),
    (weight(33, 70, seed=2),),
    (weight(1025, seed=3),),
    (weight(40, 60, seed=4), weight(40, 60, seed=5)),
]


def wanted(parts: Parts, kind: torch.dtype) -> Tensor:
    return torch.stack([part.detach() for part in parts]).sum(dim=0).to(kind)


def assert_made(found: Tensor, parts: Parts, kind: torch.dtype = torch.bfloat16) -> None:
    """Triton's interpreter cuts digits off where a GPU rounds."""
    torch.testing.assert_close(found, wanted(parts, kind), rtol=2**-7 if kind == torch.bfloat16 else 0, atol=0)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32])
def test_follow_the_weights(kind: torch.dtype) -> None:
    operands, sums = Operands(), [tuple(nn.Parameter(part.detach().clone()) for part in parts) for parts in SUMS]
    places = []
    for _ in range(3):
        with operands.made():
            found = [operand(parts, kind) for parts in sums]
        places.append([each.data_ptr() for each in found])
        for parts, have in zip(sums, found, strict=True):
            assert not have.requires_grad
            assert_made(have, parts, kind)
        with torch.no_grad():
            for part in (part for parts in sums for part in parts):
                part.mul_(1.5).add_(0.25)
    # From the second time on they are where a recording would look for them.
    assert places[1] == places[2]


def test_weights_that_have_moved_are_found() -> None:
    operands, moving, staying = Operands(), weight(50, 3, seed=6), weight(9, seed=7)
    for step in range(3):
        moving.data = torch.full_like(moving, float(step))
        with operands.made():
            assert bool((operand((moving,), torch.bfloat16) == step).all())
            assert_made(operand((staying,), torch.bfloat16), (staying,))


def test_what_is_no_weight_is_not_kept() -> None:
    """Nor is a weight that was asked for later, before the next step."""
    operands, one, later = Operands(), weight(5, seed=8), weight(6, seed=9)
    for step in range(2):
        with operands.made():
            for parts in ((one,), (one * 2,), (one[::2],)):
                assert_made(operand(parts, torch.bfloat16), parts)
            if step:
                assert_made(operand((later,), torch.bfloat16), (later,))
        with torch.no_grad():
            one.add_(1)


def test_what_was_made_stays_in_place_when_more_is_asked_for() -> None:
    """A recorded step would go on looking for it there."""
    operands, one, later = Operands(), weight(5, seed=11), weight(6, seed=12)
    places = []
    for step in range(4):
        with operands.made():
            places.append(operand((one,), torch.bfloat16).data_ptr())
            if step > 1:
                assert_made(operand((later,), torch.bfloat16), (later,))
    assert places[1] == places[2] == places[3]


def test_outside_of_a_step_nothing_is_remembered() -> None:
    operands, one = Operands(), weight(5, seed=10)
    for _ in range(2):
        with operands.made():
            operand((one,), torch.bfloat16)
    with torch.no_grad():
        one.add_(1)
    assert_made(operand((one,), torch.bfloat16), (one,))
