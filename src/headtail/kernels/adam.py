"""Adam over all weights in one kernel: torch's own fused one gives a whole matrix to one block of threads."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from headtail.kernels.launch import fused_on

# Recordings that one optimiser may be part of.
MOST_RECORDINGS = 64


class OneKernelAdam(torch.optim.Adam):
    """torch's Adam for float32 weights of one device, with the same state, which a recording can hold.

    A recording finds gradients where they were when it was made, so each has a table of addresses of its own. Room for
    these is made by the first step, since no host memory can be pinned while work is recorded.
    """

    def __init__(self, weights: Iterable[nn.Parameter], learning_rate: float, weight_decay: float) -> None:
        weights = list(weights)
        rate = torch.tensor(learning_rate, device=weights[0].device)
        super().__init__(weights, rate, weight_decay=weight_decay, fused=True, capturable=True)
        self._chunks: tuple[Tensor, Tensor, Tensor] | None = None
        self._sizes: list[int] = []
        self._tables: Tensor | None = None
        self._recordings = 0

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Takes a step for every weight that has a gradient."""
        assert closure is None
        (group,) = self.param_groups
        weights = [weight for weight in group["params"] if weight.grad is not None]
        if not weights:
            return
        if not fused_on(weights[0].device):
            super().step()
            return
        from headtail.kernels import adam_triton

        states = [self._state_of(weight) for weight in weights]
        torch._foreach_add_([state["step"] for state in states], 1)
        grads = [weight.grad.contiguous() for weight in weights]
        moments = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq"))
        addresses = self._on_device([[x.data_ptr() for x in each] for each in (weights, grads, *moments)])
        sizes = [weight.numel() for weight in weights]
        if self._chunks is None or sizes != self._sizes:
            self._chunks, self._sizes = adam_triton.chunks_of(sizes, weights[0].device), sizes
        how = group["betas"], group["eps"], group["weight_decay"]
        adam_triton.adam(addresses, self._chunks, states[0]["step"], group["lr"], *how)

    def _state_of(self, weight: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[weight]
        if not state:
            state["step"] = torch.zeros((), device=weight.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
        return state

    def _on_device(self, addresses: list[list[int]]) -> Tensor:
        """Returns int64 [4, weights] on the device."""
        table = torch.tensor(addresses)
        device = self.param_groups[0]["params"][0].device
        if device.type != "cuda":
            return table
        if self._tables is None:
            self._tables = torch.empty(MOST_RECORDINGS, *table.shape, dtype=torch.int64, pin_memory=True)
        if not torch.cuda.is_current_stream_capturing():
            return table.to(device)
        kept = self._tables[self._recordings].copy_(table)
        self._recordings += 1
        return kept.to(device, non_blocking=True)
