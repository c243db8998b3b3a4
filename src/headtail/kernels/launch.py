"""Whether the fused kernels can run, and how they are cut into programs."""

import importlib.util
import os
from functools import cache

import torch
from torch import Tensor

# Elements of a tile that one program works on at a time.
TILE_ELEMENTS = 4096
# Programs that share a reduction over rows: two for every multiprocessor of a large GPU; more take longer to merge.
MOST_PROGRAMS = 264
# Columns of theirs that one program merges, with one warp: as few bytes as are read at once, by many programs.
MERGED, MERGING_WARPS = 4, 1
# Says in one line what is lost where Triton is missing.
WITHOUT_TRITON = "Triton is not installed: training uses plain PyTorch kernels, which are slower; pip install triton."


@cache
def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


@cache
def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, which needs no GPU: for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1" and has_triton()


def engine(device: torch.device) -> bool:
    """Whether a GPU trains with fused kernels, recorded steps and mixed precision; HEADTAIL_ENGINE=0 has it do without.

    Without, it runs the same torch code as a CPU: the reference.
    """
    return device.type == "cuda" and os.environ.get("HEADTAIL_ENGINE") != "0"


def fused_on(device: torch.device) -> bool:
    """Whether the fused kernels run there."""
    return interpreted() or (engine(device) and has_triton())


def fused(x: Tensor) -> bool:
    """Whether the fused kernels are to work on x."""
    return x.dtype in (torch.float32, torch.bfloat16) and fused_on(x.device)


def power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


def tile_rows(columns: int) -> int:
    """Returns how many rows of so many columns, rounded up to a power of two, make a tile."""
    return max(1, TILE_ELEMENTS // power_of_two(columns))
