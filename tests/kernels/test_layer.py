"""The fused layer against its reference in double precision, forward and backward."""

import pytest
import torch
from fused_case import DEVICE, assert_close, needs_kernels
from torch import Tensor

from headtail.kernels import judge as judges
from headtail.kernels import layer as module
from headtail.kernels.judge import judge
from headtail.kernels.layer import finish_product
from headtail.kernels.product import Product

# Rows; columns of the inputs, one or two; columns of the output.
SHAPES = [(1, (3,), 4), (40, (8, 5), 16), (150, (64,), 64), (300, (24, 40), 33), (140, (128, 256), 256)]


class Case:
    """Inputs, weights, bias, something to add, norm parameters and a gradient, in double precision."""

    def __init__(self, n: int, widths: tuple[int, ...], d: int, padding: int = 0) -> None:
        generator = torch.Generator().manual_seed(n + d)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.count = n
        self.inputs = [draw(n + padding, k) for k in widths]
        self.weights = [draw(d, k) / k**0.5 for k in widths]
        self.bias, self.plus, self.grad = draw(d), draw(n + padding, d), draw(n + padding, d)
        self.parameters = [1 + 0.5 * draw(d), 1 + 0.5 * draw(d), draw(d)]

    def round(self, kind: torch.dtype) -> "Case":
        """Rounds rows to what a kernel is given; weights too, which it rounds itself."""
        for many in (self.inputs, self.weights):
            many[:] = [x.to(kind).double() for x in many]
        self.plus, self.grad = (x.to(kind).double() for x in (self.plus, self.grad))
        return self

    def run(
        self, relu: bool, unit: bool, residual: bool, plus: bool, kind: torch.dtype, device: torch.device
    ) -> list[Tensor]:
        """Returns the output, both moments and all gradients."""
        wide = torch.float64 if kind == torch.float64 else torch.float32

        def leaf(x: Tensor, kind: torch.dtype) -> Tensor:
            return x.clone().to(device, kind).requires_grad_()

        rows = [leaf(x, kind) for x in self.inputs]
        parameters = [leaf(x, wide) for x in [*self.weights, self.bias, *self.parameters]]
        added = leaf(self.plus, kind)
        weights, (bias, *norm) = parameters[: len(rows)], parameters[len(rows) :]
        padded = self.count < self.grad.shape[0]
        out, mean, spread = finish_product(
            Product(tuple(rows), tuple((weight,) for weight in weights), (bias,)),
            rows[-1] if residual else None,
            added if plus else None,
            *norm,
            relu,
            unit,
            torch.tensor(self.count, device=device) if padded else None,
        )
        out.backward(self.grad.to(device, kind))
        leaves = [*rows, *parameters, *([added] if plus else [])]
        found = [out, mean, spread, *(leaf.grad for leaf in leaves if leaf.grad is not None)]
        assert len(found) == 3 + len(leaves)
        return [x.detach()[: self.count] if x.shape[0] == self.grad.shape[0] else x.detach() for x in found]


def wanted_of(case: Case, monkeypatch: pytest.MonkeyPatch, *switches: bool) -> list[Tensor]:
    with monkeypatch.context() as patch:
        patch.setattr(module, "fused", lambda x: False)
        return case.run(*switches, torch.float64, torch.device("cpu"))


SWITCHES = [
    (True, True, True, False),
    (True, True, False, False),
    (False, True, True, True),
    (True, False, False, False),
    (False, False, False, True),
]


@needs_kernels
@pytest.mark.parametrize("padding", [0, 9])
@pytest.mark.parametrize(("relu", "unit", "residual", "plus"), SWITCHES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, 3e-5), (torch.bfloat16, 0.2)])
def test_equals_product_and_finish(
    shape: tuple[int, tuple[int, ...], int],
    relu: bool,
    unit: bool,
    residual: bool,
    plus: bool,
    padding: int,
    kind: torch.dtype,
    tolerance: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n, widths, d = shape
    if residual:  # what is added must have the columns of what it is added to
        widths = (*widths[:-1], d)
    case = Case(n, widths, d, padding).round(kind)
    wanted = wanted_of(case, monkeypatch, relu, unit, residual, plus)
    found = case.run(relu, unit, residual, plus, kind, DEVICE)
    if n == 1:  # one row has no spread, so its gradients are differences of equal numbers
        found, wanted = found[:2], wanted[:2]
    # In bf16, a number near 0 may fall on the other side of a ReLU, which costs its whole gradient.
    for have, want in zip(found, wanted, strict=True):
        assert_close(have, want, tolerance)


@needs_kernels
@pytest.mark.parametrize("padding", [0, 9])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, 3e-5), (torch.bfloat16, 0.2)])
def test_judge_equals_layer_and_dot(
    shape: tuple[int, tuple[int, ...], int],
    padding: int,
    kind: torch.dtype,
    tolerance: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case(*shape, padding).round(kind)

    def run(kind: torch.dtype, device: torch.device) -> list[Tensor]:
        wide = torch.float64 if kind == torch.float64 else torch.float32
        rows = [x.clone().to(device, kind).requires_grad_() for x in case.inputs]
        given = [*case.weights, case.bias, *case.parameters, case.plus[:1], case.plus[0, :1]]
        parameters = [x.clone().to(device, wide).requires_grad_() for x in given]
        weights, (bias, *norm, last, last_bias) = parameters[: len(rows)], parameters[len(rows) :]
        count = torch.tensor(case.count, device=device) if padding else None
        product = Product(tuple(rows), tuple((weight,) for weight in weights), (bias,))
        logits, mean, spread = judge(product, *norm, last, last_bias, count)
        (logits[: case.count] * case.grad[: case.count, 0].to(device, wide)).sum().backward()
        found = [logits[: case.count], mean, spread, *(leaf.grad for leaf in [*rows, *parameters])]
        return [x[: case.count] if x.shape[0] == case.grad.shape[0] else x for x in found if x is not None]

    with monkeypatch.context() as patch:
        patch.setattr(judges, "fused", lambda x: False)
        patch.setattr(module, "fused", lambda x: False)
        wanted = run(torch.float64, torch.device("cpu"))
    found = run(kind, DEVICE)
    assert len(found) == len(wanted)
    if case.count == 1:
        found, wanted = found[:2], wanted[:2]
    for have, want in zip(found, wanted, strict=True):
        assert_close(have, want, tolerance)
