"""What the products of a step multiply by: sums of weights in the precision of the step, all made by one kernel.

One by one these are some thirty kernels, each of which takes longer to start than to run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn

from headtail.kernels.product import Parts, total


class Operands:
    """Makes at the beginning of a step what the steps before it asked for on their way.

    An operand is always in the same place, so a recorded step finds it there; the next step overwrites it.
    """

    def __init__(self) -> None:
        self._asked: dict[tuple[int, ...], tuple[Parts, torch.dtype]] = {}
        self._made: dict[tuple[int, ...], Tensor] = {}
        self._where: list[int] = []
        # What the kernel is told; the last counts, but a recorded step goes on reading the one that it was made with.
        self._tables: list[tuple[Tensor, ...]] = []

    @contextmanager
    def made(self) -> Iterator[None]:
        """Has `operand` give what was made in one go; what is asked for anew is noted for the next step."""
        if self._tables:
            self._prepare()  # weights may have moved
            self._make()
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)
        self._prepare()

    def find(self, parts: Parts, kind: torch.dtype) -> Tensor | None:
        """Returns the sum if it was made; only sums of weights are, and only those that are any work."""
        if len(parts) > 2 or not all(isinstance(part, nn.Parameter) and part.is_contiguous() for part in parts):
            return None
        if len(parts) == 1 and parts[0].dtype == kind:
            return None
        key = tuple(id(part) for part in parts)
        self._asked.setdefault(key, (parts, kind))
        made = self._made.get(key)
        return made if made is not None and made.dtype == kind else None

    def _prepare(self) -> None:
        """Makes room for all that was asked for; not while a step is recorded, which asks for nothing new."""
        where = [part.data_ptr() for parts, _ in self._asked.values() for part in parts]
        if where == self._where:
            return
        from headtail.kernels import operands_triton

        for key, (parts, kind) in self._asked.items():
            if key not in self._made:
                self._made[key] = torch.empty_like(parts[0], dtype=kind)
        sums = [(parts, self._made[key]) for key, (parts, _) in self._asked.items()]
        self._tables.append(operands_triton.table_of(sums))
        self._where = where

    def _make(self) -> None:
        from headtail.kernels import operands_triton

        operands_triton.make(self._tables[-1])


_CURRENT: ContextVar[Operands | None] = ContextVar("operands", default=None)


def operand(parts: Parts, kind: torch.dtype) -> Tensor:
    """Returns the sum of some weights in a precision, without a gradient; made beforehand where it could be."""
    current = _CURRENT.get()
    found = None if current is None else current.find(parts, kind)
    return total(parts).detach().to(kind) if found is None else found
