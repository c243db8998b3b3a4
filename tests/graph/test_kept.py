"""What a run keeps of a view: rows come back as they were, and wrong ones are refused before anything reads by them."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from headtail.errors import RunError
from headtail.files import ALIGNED_TO, read_mapped, read_tensors, write_mapped
from headtail.graph.csr import CSR, row_pointers
from headtail.graph.kept import Kept, State, rows_state, within
from headtail.graph.matrix import to_rows, to_scipy

NODES = 40
KINDS = (torch.int64, torch.int32, torch.float32, torch.bfloat16)


def random_rows(seed: int, entries: int = 300) -> CSR:
    """Returns weighted rows [NODES, NODES], some of them empty."""
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randint(NODES * (NODES - 5), (entries,), generator=generator).unique()
    row = keys // NODES
    return CSR(row_pointers(row, NODES), keys % NODES, NODES, torch.rand(keys.numel(), generator=generator))


def kept(state: State) -> Kept:
    return Kept(state, "answers.safetensors", "delete it.")


@pytest.mark.parametrize("seed", range(20))
def test_tensors_are_mapped_as_they_were_and_begin_as_those_in_memory(seed: int, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(0, 9, (12, 2), generator=generator).tolist()
    tensors = {
        f"ü {place}/{kind}": (100 * torch.randn(size, generator=generator)).to(kind)
        for place, (size, kind) in enumerate(zip(sizes, 3 * KINDS, strict=True))
    }
    tensors["transposed"] = torch.randn(3, 5, generator=generator).T
    path = tmp_path / "t.safetensors"
    write_mapped(path, tensors, {"seed": seed})
    found, facts = read_mapped(path, "delete it.")
    assert facts == {"seed": seed}
    assert list(tensors) == sorted(found, key=list(tensors).index)
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(found[name], tensor)
        assert found[name].numel() == 0 or found[name].data_ptr() % ALIGNED_TO == 0
    found["transposed"].zero_()  # what is mapped is the reader's own
    assert torch.equal(read_tensors(path)[0]["transposed"], tensors["transposed"])


@pytest.mark.parametrize("seed", range(5))
def test_rows_come_back(seed: int) -> None:
    rows = random_rows(seed, entries=300 if seed else 0)
    found = kept(within("a", within("b", rows_state(rows)))).part("a").rows("b", NODES)
    assert found is not None
    assert found.weight is not None
    assert rows.weight is not None
    every = torch.cartesian_prod(torch.arange(NODES), torch.arange(NODES)).T
    entry, there = found.find(*every)
    wanted, known = rows.find(*every)
    assert torch.equal(there, known)
    assert torch.equal(entry[there], wanted[known])
    assert torch.equal(found.weight, rows.weight)
    for one, other in zip(found.entries_of(torch.arange(NODES)), rows.entries_of(torch.arange(NODES)), strict=True):
        assert torch.equal(one, other)
    again = to_scipy(found, "float32")
    assert (again != to_scipy(rows, "float32")).nnz == 0
    assert torch.equal(to_rows(again).col.long(), rows.col)


def test_what_is_not_there_is_none() -> None:
    nothing = kept({"other": torch.zeros(3)})
    assert nothing.rows("a", NODES) is None
    assert nothing.table("a", NODES) is None
    assert nothing.part("oth").tensors == {}


def changed(name: str, tensor: Tensor | None) -> State:
    state = rows_state(random_rows(0))
    return {key: value for key, value in (state | {name: tensor}).items() if value is not None}


def with_starts(*first: int) -> Tensor:
    """Returns pointers of which the first are others."""
    pointers = random_rows(0).row_ptr
    return torch.cat([torch.tensor(first), pointers[len(first) :]])


ROWS = rows_state(random_rows(0))
DAMAGED = {
    "no weights": changed("weight", None),
    "another part": changed("more", torch.zeros(1)),
    "wide columns": changed("col", ROWS["col"].long()),
    "columns in two rows": changed("col", ROWS["col"][None]),
    "negative": changed("col", ROWS["col"] - 1),
    "beyond": changed("col", ROWS["col"] + 1),
    "fewer columns": changed("col", ROWS["col"][1:]),
    "fewer weights": changed("weight", ROWS["weight"][1:]),
    "weights that count": changed("weight", ROWS["weight"].int()),
    "narrow pointers": changed("row_ptr", ROWS["row_ptr"].int()),
    "fewer rows": changed("row_ptr", ROWS["row_ptr"][:-1]),
    "from the second on": changed("row_ptr", ROWS["row_ptr"].clamp(min=1)),
    "up and down": changed("row_ptr", with_starts(0, 10**6)),
    "up and down, around the largest number": changed("row_ptr", with_starts(0, 2**63 - 1, -(2**63), -1)),
    "to beyond the end": changed("row_ptr", torch.cat([ROWS["row_ptr"][:-1], ROWS["row_ptr"][-1:] + 1])),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_wrong_rows_are_refused(how: str) -> None:
    with pytest.raises(RunError, match=r"^answers\.safetensors is damaged \(.*a.*\); delete it\.$"):
        kept(within("a", DAMAGED[how])).rows("a", NODES)


@pytest.mark.parametrize(
    "table",
    [torch.zeros(NODES), torch.zeros(3, NODES), torch.zeros(NODES, 3).long(), torch.zeros(NODES, 3).bfloat16()],
)
def test_wrong_tables_are_refused(table: Tensor) -> None:
    with pytest.raises(RunError, match=r"^answers\.safetensors is damaged \(a is .*\); delete it\.$"):
        kept({"a": table}).table("a", NODES, 3)


def test_a_table_may_be_of_any_width_and_of_other_types_where_that_is_said() -> None:
    table = torch.zeros(NODES, 3).bfloat16()
    assert kept({"a": table}).table("a", NODES, None, kinds=(torch.bfloat16,)) is table
