"""GraphNorm and unit rows: forward, gradients and running statistics against the plain formulas."""

import pytest
import torch
from method_oracle import graph_norm, unit
from torch import Tensor

from headtail.kernels.unit import unit_rows
from headtail.nn.norm import GraphNorm


def norm_of(dim: int, spread: bool, momentum: float = 0.1) -> GraphNorm:
    """Returns a norm with α, γ, β away from their initial values where `spread`."""
    norm = GraphNorm(dim, momentum)
    if spread:
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter, middle in ((norm.alpha, 0.6), (norm.gamma, 1.2), (norm.beta, -0.3)):
                parameter.copy_(middle + 0.5 * torch.randn(dim, generator=generator))
    return norm


def data(rows: int = 30, dim: int = 6, seed: int = 0) -> Tensor:
    """Columns of different means and spreads, float64."""
    generator = torch.Generator().manual_seed(seed)
    scale = torch.logspace(-1, 1, dim, dtype=torch.float64)
    return torch.randn(rows, dim, generator=generator, dtype=torch.float64) * scale + scale.flip(0)


def plain(norm: GraphNorm) -> list[Tensor]:
    return [p.detach().double().requires_grad_() for p in (norm.alpha, norm.gamma, norm.beta)]


@pytest.mark.parametrize("spread", [False, True], ids=["initial", "learned"])
@pytest.mark.parametrize("rows", [2, 30])
def test_forward_equals_the_formula(spread: bool, rows: int, device: torch.device) -> None:
    norm = norm_of(6, spread).to(device)
    x = data(rows)
    wanted = graph_norm(x, *(p.cpu() for p in plain(norm)))
    torch.testing.assert_close(norm(x.float().to(device)).cpu().double(), wanted, rtol=1e-4, atol=1e-4)


def test_one_row_is_its_own_mean() -> None:
    norm = norm_of(6, spread=True)
    x = data(1)
    torch.testing.assert_close(norm(x.float()).double(), graph_norm(x, *plain(norm)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("spread", [False, True], ids=["initial", "learned"])
def test_gradients_equal_those_of_the_formula(spread: bool, device: torch.device) -> None:
    norm = norm_of(6, spread).to(device)
    x = data()
    weights = data(seed=3)  # a gradient that differs from entry to entry
    single = x.float().to(device).requires_grad_()
    found = torch.autograd.grad((norm(single) * weights.to(device)).sum(), [single, *norm.parameters()])
    parameters = [p.cpu().detach().requires_grad_() for p in plain(norm)]
    x.requires_grad_()
    wanted = torch.autograd.grad((graph_norm(x, *parameters) * weights).sum(), [x, *parameters])
    for have, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(have.cpu().double(), want, rtol=1e-3, atol=1e-3 * float(want.abs().max()))


@pytest.mark.parametrize(("rows", "spread"), [(2, False), (8, False), (1, True), (2, True), (8, True)])
def test_gradients_by_finite_differences(rows: int, spread: bool) -> None:
    norm = norm_of(6, spread).double()

    def normed(x: Tensor, alpha: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        chosen = {"alpha": alpha, "gamma": gamma, "beta": beta}
        out: Tensor = torch.func.functional_call(norm, chosen, (x,))
        return out

    assert torch.autograd.gradcheck(normed, (data(rows).requires_grad_(), *plain(norm)))


@pytest.mark.parametrize("momentum", [0.1, 0.9, 1.0])
def test_running_statistics_follow_the_batches(momentum: float) -> None:
    norm = norm_of(6, spread=True, momentum=momentum)
    alpha = norm.alpha.detach().double()
    mean, spread = torch.zeros(6, dtype=torch.float64), torch.ones(6, dtype=torch.float64)
    for seed in range(4):
        x = data(seed=seed)
        norm(x.float())
        mean = (1 - momentum) * mean + momentum * x.mean(dim=0)
        newest = (x - alpha * x.mean(dim=0)).square().mean(dim=0)
        spread = (1 - momentum) * spread + momentum * newest
    torch.testing.assert_close(norm.running_mean.double(), mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(norm.running_spread.double(), spread, rtol=1e-4, atol=1e-5)


def test_evaluation_uses_and_keeps_the_running_statistics() -> None:
    norm = norm_of(6, spread=True)
    for seed in range(3):
        norm(data(seed=seed).float())
    norm.eval()
    mean, spread = norm.running_mean.clone(), norm.running_spread.clone()
    x = data(seed=9)
    alpha, gamma, beta = plain(norm)
    wanted = (x - alpha * mean.double()) / (spread.double() + 1e-5).sqrt() * gamma + beta
    torch.testing.assert_close(norm(x.float()).double(), wanted.detach(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(norm(x[:1].float()), norm(x.float())[:1])
    assert torch.equal(norm.running_mean, mean)
    assert torch.equal(norm.running_spread, spread)


def test_statistics_of_the_graph_are_those_of_the_rows_given() -> None:
    norm = GraphNorm(6, statistics="graph").eval()
    with torch.no_grad():
        norm.alpha.copy_(torch.linspace(0.2, 1.3, 6))
    mean = norm.running_mean.clone()
    x = data()
    torch.testing.assert_close(norm(x.float()).double(), graph_norm(x, *plain(norm)), rtol=1e-4, atol=1e-4)
    assert torch.equal(norm.running_mean, mean)


def test_after_one_batch_with_momentum_one_evaluation_repeats_it() -> None:
    norm = norm_of(6, spread=True, momentum=1.0)
    x = data().float()
    trained = norm(x)
    torch.testing.assert_close(norm.eval()(x), trained, rtol=1e-4, atol=1e-4)


def test_unit_rows_have_length_one_and_zero_rows_stay() -> None:
    x = data(5).float()
    x[2] = 0
    y = unit_rows(x)
    torch.testing.assert_close(y, unit(x))
    torch.testing.assert_close(y.norm(dim=1), torch.tensor([1.0, 1, 0, 1, 1]))


def test_gradient_of_unit_rows() -> None:
    assert torch.autograd.gradcheck(unit_rows, data(5).requires_grad_())
