"""What a run keeps of a view so that it opens fast: named tables and rows, checked when they are asked for.

They may come from a stranger, and compiled code would read beyond them: types, shapes and ranges are checked. What is
not there is made as if nothing were kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headtail.errors import RunError
from headtail.graph.csr import CSR
from headtail.graph.mapped import MappedCSR

# Tensors by name; "/" stands between the names of parts within parts.
State = dict[str, Tensor]
# Columns that are checked at a time.
CHECKED = 2**24


@dataclass(frozen=True)
class Kept:
    """Tensors that a run keeps, mapped from its file.

    Attributes:
        tensors: by name.
        where: names the file in messages.
        remedy: what to do where it is damaged.
    """

    tensors: Mapping[str, Tensor]
    where: str
    remedy: str

    def part(self, name: str) -> "Kept":
        """Returns what `within` put under a name."""
        prefix = f"{name}/"
        found = {key.removeprefix(prefix): t for key, t in self.tensors.items() if key.startswith(prefix)}
        return Kept(found, self.where, self.remedy)

    def table(self, name: str, *shape: int | None, kinds: tuple[torch.dtype, ...] = (torch.float32,)) -> Tensor | None:
        """Returns a table of this shape, where None is any length, and of one of these types; None where there is none.

        Raises:
            RunError: it has another type or shape.
        """
        found = self.tensors.get(name)
        if found is None:
            return None
        fits = len(shape) == found.dim() and all(
            wanted in (None, length) for wanted, length in zip(shape, found.shape, strict=True)
        )
        if found.dtype not in kinds or not fits:
            raise self._wrong(f"{name} is {found.dtype} of shape {list(found.shape)}, which it should not be")
        return found

    def rows(self, name: str, num_nodes: int) -> CSR | None:
        """Returns weighted rows [N, N] that `rows_state` wrote; None where there are none.

        Raises:
            RunError: parts are missing, do not fit each other, or name nodes that do not exist.
        """
        parts = self.part(name).tensors
        if not parts:
            return None
        if parts.keys() != {"row_ptr", "col", "weight"}:
            raise self._wrong(f"{name} has parts too few or too many")
        row_ptr, col, weight = parts["row_ptr"], parts["col"], parts["weight"]
        kinds = (row_ptr.dtype, col.dtype, weight.dtype)
        wanted = (torch.int64, _column_type(num_nodes), torch.float32)
        if kinds != wanted or row_ptr.shape != (num_nodes + 1,) or col.dim() != 1:
            raise self._wrong(f"{name} is of types or shapes that are none of rows")
        low, high = row_ptr.aminmax()  # looked at first: of numbers of any size, differences could wrap around
        ends = {int(low), int(row_ptr[0])}, {int(high), int(row_ptr[-1])}
        if ends != ({0}, {col.numel()}) or col.shape != weight.shape or bool((row_ptr.diff() < 0).any()):
            raise self._wrong(f"the rows of {name} do not fit its {col.numel():,} entries")
        for some in torch.split(col, CHECKED) if col.numel() else ():
            low, high = some.aminmax()
            if not 0 <= int(low) <= int(high) < num_nodes:
                raise self._wrong(f"{name} names the nodes {int(low)} to {int(high)} of {num_nodes:,}")
        return MappedCSR(row_ptr, col, num_nodes, weight)

    def _wrong(self, what: str) -> RunError:
        return RunError(f"{self.where} is damaged ({what}); {self.remedy}")


def within(name: str, state: State) -> State:
    """Returns the tensors of a part under its name."""
    return {f"{name}/{key}": tensor for key, tensor in state.items()}


def rows_state(rows: CSR) -> State:
    """Returns weighted rows as `Kept.rows` reads them."""
    assert rows.weight is not None
    return {"row_ptr": rows.row_ptr, "col": rows.col.to(_column_type(rows.num_cols)), "weight": rows.weight}


def _column_type(num_cols: int) -> torch.dtype:
    return torch.int32 if num_cols < 2**31 else torch.int64
