"""The fused finish against its reference in double precision, forward and backward."""

import pytest
import torch
from fused_case import DEVICE, assert_close, needs_kernels
from torch import Tensor

from headtail.kernels import finish as module
from headtail.kernels.finish import Running, finish

SHAPES = [(1, 1), (2, 3), (17, 8), (130, 5), (300, 64), (70, 256)]


def inputs(n: int, d: int, seed: int) -> tuple[Tensor, Tensor, list[Tensor], Tensor]:
    """Returns h, previous, (α, γ, β) and a gradient, float64, columns of different means and spreads."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    scale = torch.logspace(-1, 1, d, dtype=torch.float64)
    h = draw(n, d) * scale + 3 * scale.flip(0)
    return h, draw(n, d), [1 + 0.5 * draw(d), 1 + 0.5 * draw(d), draw(d)], draw(n, d)


def run(
    h: Tensor,
    previous: Tensor | None,
    parameters: list[Tensor],
    grad: Tensor,
    relu: bool,
    unit: bool,
    count: int | None,
) -> list[Tensor]:
    """Returns the output, both moments and all gradients."""
    leaves = [x.detach().clone().requires_grad_() for x in [h, *parameters]]
    residual = None if previous is None else previous.detach().clone().requires_grad_()
    counted = None if count is None else torch.tensor(count, device=h.device)
    out, mean, spread = finish(leaves[0], residual, *leaves[1:], relu, unit, counted)
    out.backward(grad)
    every = leaves if residual is None else [*leaves, residual]
    return [out, mean, spread, *(leaf.grad for leaf in every if leaf.grad is not None)]


def reference(monkeypatch: pytest.MonkeyPatch, *given: object) -> list[Tensor]:
    with monkeypatch.context() as patch:
        patch.setattr(module, "fused", lambda x: False)
        return run(*given)  # type: ignore[arg-type]


@needs_kernels
@pytest.mark.parametrize("padding", [0, 9])
@pytest.mark.parametrize(("relu", "unit"), [(True, True), (False, True), (True, False), (False, False)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("residual", [False, True])
def test_single_precision(
    shape: tuple[int, int], relu: bool, unit: bool, residual: bool, padding: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, d = shape
    h, previous, parameters, grad = inputs(n + padding, d, seed=n + d)
    count = n if padding else None
    wanted = reference(monkeypatch, h, previous if residual else None, parameters, grad, relu, unit, count)
    single = [x.float().to(DEVICE) for x in (h, previous, grad)]
    found = run(
        single[0],
        single[1] if residual else None,
        [p.float().to(DEVICE) for p in parameters],
        single[2],
        relu,
        unit,
        count,
    )
    assert not float(found[0][n:].abs().sum())
    if n == 1:  # one row has no spread, so its gradients are differences of equal numbers
        found, wanted = found[:2], wanted[:2]
    for have, want in zip(found, wanted, strict=True):
        assert_close(have, want, 2e-5)


@needs_kernels
@pytest.mark.parametrize("unit", [True, False])
def test_half_precision(unit: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    h, previous, parameters, grad = inputs(500, 64, seed=1)
    h, previous, grad = (x.bfloat16().double() for x in (h, previous, grad))  # what the kernel is given, exactly
    wanted = reference(monkeypatch, h, previous, parameters, grad, True, unit, None)
    half = [x.bfloat16().to(DEVICE) for x in (h, previous, grad)]
    found = run(half[0], half[1], [p.float().to(DEVICE) for p in parameters], half[2], True, unit, None)
    assert found[0].dtype == torch.bfloat16
    assert found[1].dtype == found[4].dtype == torch.float32  # statistics and gradients of parameters
    for have, want in zip(found, wanted, strict=True):
        assert_close(have, want, 1e-2)


@needs_kernels
def test_nothing_comes_of_nothing() -> None:
    parameters = [torch.ones(4, device=DEVICE) for _ in range(3)]
    for count in (None, 0):
        h = torch.randn(0 if count is None else 5, 4, device=DEVICE)
        found = run(h, None, parameters, torch.ones_like(h), True, True, count)
        assert all(bool(torch.isfinite(x).all()) for x in found)
        assert not float(found[0].abs().sum())
        assert not float(found[3].abs().sum())


@needs_kernels
def test_padding_may_hold_anything() -> None:
    h, previous, parameters, grad = inputs(40, 8, seed=2)
    h, previous, grad = (x.float().to(DEVICE) for x in (h, previous, grad))
    single = [p.float().to(DEVICE) for p in parameters]
    wanted = run(h[:30], previous[:30], single, grad[:30], True, True, None)
    for x in (h, previous, grad):
        x[30:] = float("nan")
    found = run(h, previous, single, grad, True, True, 30)
    for have, want in zip(found, wanted, strict=True):
        rows = have[:30] if have.shape[0] == 40 else have
        assert_close(rows, want, 1e-6)


@needs_kernels
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize(("n", "count"), [(40, None), (40, 31), (1, None)])
def test_running_statistics_take_in_every_batch(
    n: int, count: int | None, unbiased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    h, _, parameters, _ = inputs(n, 8, seed=3)

    def statistics(kind: torch.dtype, device: torch.device) -> list[Tensor]:
        running = Running(*(torch.full((8,), x, dtype=kind, device=device) for x in (0.5, 2.0)), 0.1, unbiased)
        counted = None if count is None else torch.tensor(count, device=device)
        for factor in (1.0, 3.0):
            given = [x.to(device, kind) for x in [h * factor, *parameters]]
            finish(given[0], None, *given[1:], True, True, counted, running)
        return [running.mean, running.spread]

    with monkeypatch.context() as patch:
        patch.setattr(module, "fused", lambda x: False)
        wanted = statistics(torch.float64, torch.device("cpu"))
    for have, want in zip(statistics(torch.float32, DEVICE), wanted, strict=True):
        assert_close(have, want, 1e-5)


@needs_kernels
@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize(("relu", "unit"), [(True, True), (False, False)])
def test_known_moments(
    relu: bool, unit: bool, residual: bool, kind: torch.dtype, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    h, previous, (slope, shift, _), _ = inputs(70, 24, seed=4)
    h, previous = (x.to(kind).double() for x in (h, previous))
    with monkeypatch.context() as patch:
        patch.setattr(module, "fused", lambda x: False)
        wanted = module.finish_with(h, previous if residual else None, slope, shift, relu, unit)
    rows = [x.to(DEVICE, kind) for x in (h, previous)]
    with torch.no_grad():
        found = module.finish_with(
            rows[0], rows[1] if residual else None, slope.float().to(DEVICE), shift.float().to(DEVICE), relu, unit
        )
    assert found.dtype == kind
    assert_close(found, wanted, tolerance)
