"""The ranks of a job: processes that train, judge and answer together, started by torchrun or anything like it.

Callers ask `current()` and never whether there are several: a process by itself is the only rank of its job.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from headtail.errors import ConfigError, RanksError

# Seconds that a rank waits for the others before it gives up; HEADTAIL_RANK_TIMEOUT sets another number.
TIMEOUT = 1800
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Ranks:
    """A process by itself, and what those that are several have in common.

    Attributes:
        rank, size: which of how many this process is.
        gpu: the GPU that is this rank's own; None: any.
    """

    rank, size = 0, 1
    gpu: int | None = None

    @property
    def leads(self) -> bool:
        """Whether this rank writes files and speaks for all."""
        return self.rank == 0

    @property
    def several(self) -> bool:
        return self.size > 1

    def share(self, items: Tensor, dim: int = 0) -> Tensor:
        """Returns this rank's share: neighbouring items, as many as the others' or one more; perhaps none."""
        return items.tensor_split(self.size, dim)[self.rank] if self.several else items

    def sum(self, x: Tensor) -> Tensor:
        """Returns the sum of x over all ranks, the same on all of them; shapes must agree."""
        return x

    def whole(self, part: Tensor, total: int) -> Tensor:
        """Returns [total, …], joined in order from the parts [n, …] that the ranks found for their shares."""
        if not self.several:
            return part
        rows = self.share(torch.arange(total, device=part.device))
        joined = part.new_zeros(total, *part.shape[1:])
        joined[rows] = part
        return self.sum(joined)  # nothing but zeros is added to anybody's part

    def each(self, x: Tensor) -> Tensor:
        """Returns [size, …], the x of every rank."""
        return self.whole(x[None], self.size)

    def agree(self, what: str, text: str) -> None:
        """Makes sure that all ranks have the same text.

        Raises:
            RanksError: some do not; it says which, and that `what` differs.
        """
        digest = hashlib.blake2b(text.encode(), digest_size=7).digest()
        found = self.each(torch.tensor(int.from_bytes(digest, "big")))
        others = (found != found[0]).nonzero().flatten().tolist()
        if others:
            raise RanksError(
                f"rank {', '.join(map(str, others))} of {self.size}: {what} is not that of rank 0; start all ranks "
                "with the same options, files and versions, on the same kind of machine."
            )

    def __deepcopy__(self, memo: object) -> "Ranks":
        return self  # a copy of a module is on the same rank

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size}"


ALONE = Ranks()


class ProcessRanks(Ranks):
    """One of several processes that are joined by torch.distributed."""

    def __init__(self, rank: int, size: int, device: torch.device) -> None:
        self.rank, self.size, self.device = rank, size, device
        self.gpu = device.index

    def sum(self, x: Tensor) -> Tensor:
        added = x.detach().to(self.device, copy=True).contiguous()
        try:
            dist.all_reduce(added)
        except RuntimeError as error:
            reason = " ".join(str(error).split())[:200]
            raise RanksError(
                f"{self} lost the others, or waited too long for them ({reason}). The first error that another rank "
                "printed says why; then start all ranks again, with --resume where an epoch was finished."
            ) from error
        return added.to(x.device)


class _Current:
    ranks: Ranks = ALONE


def current() -> Ranks:
    """Returns what this process is in its job."""
    return _Current.ranks


def started() -> Ranks:
    """Returns which of how many this process was started as, whether it has joined the others or not."""
    asked = Ranks()
    asked.size = _number("WORLD_SIZE", 1)
    asked.rank = _number("RANK", 0) if asked.several else 0
    return asked


@contextmanager
def joined(device: str) -> Iterator[Ranks]:
    """Joins the other ranks that torchrun started, if any, and leaves them at the end.

    Ranks on GPUs of their own speak NCCL. Others speak gloo: those on a CPU, or more than there are GPUs.

    Args:
        device: the setting, cpu, cuda or auto.

    Raises:
        RanksError: the environment is incomplete, or the others cannot be reached.
    """
    asked = started()
    if not asked.several:
        yield ALONE
        return
    missing = [name for name in NEEDED if not os.environ.get(name)]
    if missing:
        raise RanksError(f"WORLD_SIZE is {asked.size}, but {', '.join(missing)} is not set; start ranks with torchrun.")
    where, own_gpu = _place(device, asked.rank)
    seconds = _number("HEADTAIL_RANK_TIMEOUT", TIMEOUT)
    try:
        dist.init_process_group("nccl" if own_gpu else "gloo", timeout=timedelta(seconds=seconds))
    except (RuntimeError, ValueError) as error:
        master = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise RanksError(
            f"{asked} cannot join the others at {master} within {seconds} s "
            f"({' '.join(str(error).split())[:200]}); check that all {asked.size} were started and reach that address."
        ) from error
    _Current.ranks = ProcessRanks(asked.rank, asked.size, where)
    try:
        yield _Current.ranks
    finally:
        _Current.ranks = ALONE
        dist.destroy_process_group()


def _place(device: str, rank: int) -> tuple[torch.device, bool]:
    """Returns where a rank computes, and whether it has a GPU of its own."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "cpu" or (device == "auto" and not gpus):
        return torch.device("cpu"), False
    if not gpus or device not in ("auto", "cuda"):
        raise ConfigError(
            f"several ranks cannot share device {device!r} here; use --device cpu, or cuda on a GPU machine."
        )
    local = _number("LOCAL_RANK", rank)
    where = torch.device("cuda", local % gpus)
    torch.cuda.set_device(where)
    return where, _number("LOCAL_WORLD_SIZE", local + 1) <= gpus


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")
    if not text:
        return default
    if not text.isdecimal():
        raise RanksError(f"the environment variable {variable} is {text!r}, which is no whole number.")
    return int(text)
