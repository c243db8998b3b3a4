"""The ranks of a job: processes that train, judge and answer together, started by torchrun or anything like it.

Callers ask `current()` and never whether there are several: a process by itself is the only rank of its job.
"""

import hashlib
import logging
import os
import socket
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from headtail.errors import ConfigError, RanksError

LOG = logging.getLogger("headtail")
# Seconds that a rank waits for the others before it gives up; HEADTAIL_RANK_TIMEOUT sets another number.
TIMEOUT = 1800
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Ranks:
    """A process by itself, and what those that are several have in common.

    Attributes:
        rank, size: which of how many this process is.
        gpu: the GPU that this rank computes on; None: any.
        beside: how many ranks this machine has, with this one.
    """

    rank, size = 0, 1
    gpu: int | None = None
    beside = 1

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

    def spans(self, costs: Tensor) -> list[int]:
        """Returns size + 1 bounds: rank r has the rows bounds[r] … bounds[r + 1] − 1, perhaps none, of like cost.

        Args:
            costs: int64 [N + 1], ascending from 0: what the first i rows cost. The same on all ranks.
        """
        wanted = [int(costs[-1]) * rank // self.size for rank in range(1, self.size)]
        inner: list[int] = torch.searchsorted(costs, costs.new_tensor(wanted)).tolist()
        return [0, *inner, costs.numel() - 1]

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
        """Returns [size, …], the x of every rank; shapes must agree."""
        return self.whole(x[None], self.size)

    def of_first(self, x: Tensor) -> Tensor:
        """Returns the x of rank 0; shapes must agree."""
        return self.each(x)[0]

    def text_of_first(self, text: str) -> str:
        """Returns the text of rank 0."""
        given = torch.tensor(list(text.encode()), dtype=torch.uint8)
        told = given.new_zeros(int(self.of_first(torch.tensor(given.numel()))))
        told[: given.numel()] = given[: told.numel()]
        return bytes(self.of_first(told).tolist()).decode()

    def agree(self, what: str, text: str) -> None:
        """Makes sure that all ranks have the same text.

        Raises:
            RanksError: some do not; it says which, and that `what` differs.
        """
        found = self.each(torch.tensor(number_of(text)))
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
    """One of several processes that are joined by torch.distributed.

    They speak gloo about tensors on the CPU, until `own_gpus` has them speak NCCL about tensors on their GPUs. Where a
    tensor comes from does not matter: one of a table may be on the GPU of one rank, and in the memory of another.
    """

    def __init__(self, rank: int, size: int, device: torch.device) -> None:
        self.rank, self.size, self.gpu = rank, size, device.index
        self._meeting, self._group = torch.device("cpu"), dist.group.WORLD

    def own_gpus(self, device: torch.device, timeout: timedelta) -> None:
        """Has ranks speak NCCL, which takes one rank per GPU; all must call it."""
        self._meeting, self._group = device, dist.new_group(backend="nccl", timeout=timeout)

    def sum(self, x: Tensor) -> Tensor:
        added = x.detach().to(self._meeting, copy=True).contiguous()
        with self._together():
            dist.all_reduce(added, group=self._group)
        return added.to(x.device)

    def each(self, x: Tensor) -> Tensor:
        given = x.detach().to(self._meeting).reshape(-1)
        found = given.new_empty(self.size, given.numel())
        if given.numel():
            with self._together():
                dist.all_gather(list(found), given, group=self._group)
        return found.view(self.size, *x.shape).to(x.device)

    def of_first(self, x: Tensor) -> Tensor:
        told = x.detach().to(self._meeting, copy=True).contiguous()
        with self._together():
            dist.broadcast(told, 0, group=self._group)
        return told.to(x.device)

    def leave(self) -> None:
        """Leaves the others, and waits until the threads that spoke to them have ended.

        One that still frees a tensor when Python itself ends would take the process down by a signal. They end with the
        group, and the group with the last that refers to it, which is here: models and errors refer to these ranks.
        """
        del self._group
        dist.destroy_process_group()

    @contextmanager
    def _together(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            traceback.clear_frames(error.__traceback__)  # they refer to the group, which could not end with `leave`
            reason = " ".join(str(error).split())[:200]
            raise RanksError(
                f"{self} lost the others, or waited too long for them ({reason}). The first error that another rank "
                "printed says why; then start all ranks again, with --resume where an epoch was finished."
            ) from error


class _Current:
    ranks: Ranks = ALONE


def current() -> Ranks:
    """Returns what this process is in its job."""
    return _Current.ranks


def number_of(text: str) -> int:
    """Returns 56 bits of a hash of a text: what ranks tell each other of it."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big")


def machine() -> str:
    """Returns what names this machine, and no other; containers on it are it as well."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def started() -> Ranks:
    """Returns which of how many this process was started as, whether it has joined the others or not."""
    asked = Ranks()
    asked.size = _number("WORLD_SIZE", 1)
    asked.rank = _number("RANK", 0) if asked.several else 0
    return asked


@contextmanager
def joined(device: str) -> Iterator[Ranks]:
    """Joins the other ranks that torchrun started, if any, and leaves them at the end.

    Ranks that each have a GPU of their own speak NCCL. Others speak gloo: those on a CPU, or that share GPUs.

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
    where = _place(device, asked.rank)
    seconds = _number("HEADTAIL_RANK_TIMEOUT", TIMEOUT)
    try:
        dist.init_process_group("gloo", timeout=timedelta(seconds=seconds))
    except (RuntimeError, ValueError) as error:
        master = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise RanksError(
            f"{asked} cannot join the others at {master} within {seconds} s "
            f"({' '.join(str(error).split())[:200]}); check that all {asked.size} were started and reach that address."
        ) from error
    ranks = ProcessRanks(asked.rank, asked.size, where)
    try:
        _Current.ranks = _introduced(ranks, where, timedelta(seconds=seconds))
        yield ranks
    finally:
        _Current.ranks = ALONE
        ranks.leave()


def _introduced(ranks: ProcessRanks, where: torch.device, timeout: timedelta) -> ProcessRanks:
    """Has ranks tell each other where they are, and choose together what they speak."""
    on_gpu = where.type == "cuda"
    # Not its number: a rank may see one GPU alone, and call it the first.
    gpu = str(torch.cuda.get_device_properties(where).uuid) if on_gpu else f"none of {ranks}"
    able = on_gpu and dist.is_nccl_available()
    machines, gpus, ables = ranks.each(torch.tensor([number_of(machine()), number_of(gpu), able])).unbind(dim=1)
    ranks.beside = int((machines == machines[ranks.rank]).sum())
    if ables.all() and len(set(gpus.tolist())) == ranks.size:
        ranks.own_gpus(where, timeout)
    elif on_gpu and ranks.leads:
        seen = len(set(gpus[ables > 0].tolist()))
        LOG.warning("%d GPUs for %d ranks: they speak gloo. NCCL is faster, and takes a GPU each.", seen, ranks.size)
    return ranks


def _place(device: str, rank: int) -> torch.device:
    """Returns where a rank computes."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "cpu" or (device == "auto" and not gpus):
        return torch.device("cpu")
    if not gpus or device not in ("auto", "cuda"):
        raise ConfigError(
            f"several ranks cannot share device {device!r} here; use --device cpu, or cuda on a GPU machine."
        )
    where = torch.device("cuda", _number("LOCAL_RANK", rank) % gpus)
    torch.cuda.set_device(where)
    return where


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")
    if not text:
        return default
    if not text.isdecimal():
        raise RanksError(f"the environment variable {variable} is {text!r}, which is no whole number.")
    return int(text)
