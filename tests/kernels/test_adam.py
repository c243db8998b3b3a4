"""Adam in one kernel against torch's own in double precision."""

from copy import deepcopy

import pytest
import torch
from fused_case import DEVICE, assert_close, needs_kernels
from torch import Tensor, nn

from headtail.kernels.adam import OneKernelAdam

SHAPES = [(1,), (7,), (256,), (33, 70), (1025,), (2048,)]


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def trained(decay: float, kind: torch.dtype, device: torch.device, fused: bool) -> list[Tensor]:
    """Returns weights and both moments after some steps with gradients of very different sizes."""
    weights = [nn.Parameter(drawn(*shape, seed=i).to(device, kind)) for i, shape in enumerate(SHAPES)]
    unused = nn.Parameter(torch.ones(3, dtype=kind, device=device))
    every = [*weights[:2], unused, *weights[2:]]
    optimizer: torch.optim.Optimizer
    if fused:
        optimizer = OneKernelAdam(every, 0.01, decay)
    else:
        optimizer = torch.optim.Adam(every, 0.01, weight_decay=decay)
    for step in range(5):
        for place, weight in enumerate(weights):
            grad = 10.0 ** (place - 3) * drawn(*weight.shape, seed=100 * step + place)
            # Gradients may come transposed.
            weight.grad = (grad.mT.contiguous().mT if grad.dim() == 2 else grad).to(device, kind)
        optimizer.step()
    assert not optimizer.state[unused]
    assert bool((unused == 1).all())
    states = [optimizer.state[weight] for weight in weights]
    assert all(float(state["step"]) == 5 for state in states)
    return [*weights, *(state[name] for state in states for name in ("exp_avg", "exp_avg_sq"))]


@needs_kernels
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_equals_torch(decay: float) -> None:
    wanted = trained(decay, torch.float64, torch.device("cpu"), fused=False)
    found = trained(decay, torch.float32, DEVICE, fused=True)
    for have, want in zip(found, wanted, strict=True):
        assert_close(have, want, 2e-6)


@needs_kernels
def test_goes_on_from_the_state_of_torch() -> None:
    """A checkpoint of one is one of the other."""

    def steps(optimizer: torch.optim.Optimizer, weight: nn.Parameter, seeds: range) -> None:
        for seed in seeds:
            weight.grad = drawn(*weight.shape, seed=seed).to(DEVICE, torch.float32)
            optimizer.step()

    weights = [nn.Parameter(drawn(50, seed=9).to(DEVICE, torch.float32)) for _ in range(2)]
    plain, fused = torch.optim.Adam([weights[0]], 0.01), OneKernelAdam([weights[1]], 0.01, 0.0)
    steps(plain, weights[0], range(3))
    weights[1].data.copy_(weights[0].data)
    groups = fused.state_dict()["param_groups"]
    fused.load_state_dict({"state": deepcopy(plain.state_dict()["state"]), "param_groups": groups})
    for optimizer, weight in zip((plain, fused), weights, strict=True):
        steps(optimizer, weight, range(3, 6))
    assert_close(weights[1], weights[0], 1e-6)


@pytest.mark.gpu
def test_recordings_keep_their_own_gradients() -> None:
    weights = [nn.Parameter(torch.zeros(300, device="cuda")) for _ in range(2)]
    optimizers = [OneKernelAdam([weights[0]], 0.1, 0.0), torch.optim.Adam([weights[1]], 0.1)]
    sources = [torch.randn(300, device="cuda") for _ in range(2)]

    def step(source: Tensor) -> None:
        weights[0].grad = source * 2
        optimizers[0].step()

    step(sources[0])
    recordings = []
    for source in sources:
        recording = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recording):
            step(source)
        recordings.append(recording)
    order = (1, 0, 1, 1)
    for which in order:
        recordings[which].replay()
    for which in (0, *order):
        weights[1].grad = sources[which] * 2
        optimizers[1].step()
    assert_close(weights[0], weights[1], 1e-5)
