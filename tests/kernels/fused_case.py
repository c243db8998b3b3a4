"""Where fused kernels are tested: on a GPU, or in Triton's interpreter (TRITON_INTERPRET=1) where there is none."""

import pytest
import torch
from torch import Tensor

from headtail.kernels.launch import interpreted

if torch.cuda.is_available():
    DEVICE = torch.device("cuda")
    needs_kernels = pytest.mark.gpu
else:
    DEVICE = torch.device("cpu")
    reason = "needs a CUDA device, or Triton's interpreter (TRITON_INTERPRET=1)"
    needs_kernels = pytest.mark.skipif(not interpreted(), reason=reason)


def relative_error(found: Tensor, wanted: Tensor) -> float:
    """‖found − wanted‖ / ‖wanted‖ in double precision; NaN is never small."""
    found, wanted = found.detach().cpu().double(), wanted.detach().cpu().double()
    assert found.shape == wanted.shape
    error = (found - wanted).norm() / wanted.norm().clamp(min=1e-30)
    return float(error) if bool(torch.isfinite(found).all()) else float("inf")


def assert_close(found: Tensor, wanted: Tensor, tolerance: float) -> None:
    if not float(wanted.abs().max() if wanted.numel() else 0):
        assert not found.numel() or float(found.abs().max()) <= tolerance
        return
    assert relative_error(found, wanted) < tolerance
