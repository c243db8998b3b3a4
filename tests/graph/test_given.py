"""Names and pairs in whatever holds them: lists, arrays, tensors, columns; and what is refused."""

import re
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headtail.errors import DataError
from headtail.graph.given_pairs import heads_and_tails
from headtail.graph.names import NodeNames

NUMBERED = NodeNames(5)
INTEGERS = NodeNames(4, pd.Index([70, -3, 2**62 + 1, 9]))
TEXTS = NodeNames(4, pd.Index(["70", "b", "a,b", "9"]))
MILLION = 10**6
HOLDERS: dict[str, Callable[[list[int]], object]] = {
    "list": list,
    "tuple": tuple,
    "generator": iter,
    "array": lambda names: np.array(names, dtype=np.int64),
    "tensor": lambda names: torch.tensor(names, dtype=torch.int64),
    "series": lambda names: pd.Series(names, dtype="int64", index=[f"row {i}" for i in range(len(names))]),
    "nullable": lambda names: pd.Series(names, dtype="Int64"),
    "category": lambda names: pd.Series(names, dtype="int64").astype("category"),
    "index": lambda names: pd.Index(names, dtype="int64"),
    "objects": lambda names: np.array(names, dtype=object),
    "texts": lambda names: np.array([str(name) for name in names], dtype=np.str_),
    "column of texts": lambda names: pd.Series([str(name) for name in names], dtype="str"),
}


@pytest.mark.parametrize("holder", HOLDERS)
@given(st.lists(st.sampled_from([70, -3, 2**62 + 1, 9]), max_size=6))
def test_integers_are_found_in_whatever_holds_them(holder: str, names: list[int]) -> None:
    wanted = [[70, -3, 2**62 + 1, 9].index(name) for name in names]
    assert INTEGERS.find(HOLDERS[holder](names)).tolist() == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize("holder", HOLDERS)
def test_integers_are_found_where_nodes_are_numbers_or_texts(holder: str) -> None:
    assert NUMBERED.find(HOLDERS[holder]([4, 0, 4])).tolist() == [4, 0, 4]  # type: ignore[arg-type]
    assert TEXTS.find(HOLDERS[holder]([9, 70])).tolist() == [3, 0]  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"2 of 3 node names in the heads are not in the graph, the first is '5'"):
        NUMBERED.find(HOLDERS[holder]([1, 5, -1]), "the heads")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint32, np.uint64])
def test_integers_of_every_width(kind: type[np.integer]) -> None:
    assert NUMBERED.find(np.array([3, 1], dtype=kind)).tolist() == [3, 1]
    assert NUMBERED.find(torch.tensor([3, 1], dtype=torch.uint8)).tolist() == [3, 1]


def test_what_no_integer_of_64_bits_can_hold_is_no_node() -> None:
    around = np.array([2**64 - 3, 2**63], dtype=np.uint64)  # −3 where bits are read as signed
    with pytest.raises(DataError, match="2 of 2 node names"):
        INTEGERS.find(around)
    with pytest.raises(DataError, match="1 of 2 node names"):
        INTEGERS.find(np.array([70, 2**64 - 3], dtype=np.uint64))


def test_one_name_is_one() -> None:
    for one in (9, "9", np.int64(9), torch.tensor(9), np.array(9), [9]):
        assert INTEGERS.find(one).tolist() == [3]
    assert TEXTS.find("a,b").tolist() == [2]


def test_nothing_in_any_holder_is_nothing() -> None:
    empty = ([], (), np.array([]), torch.tensor([]), torch.empty(0, dtype=torch.bool), pd.Series([]), pd.Index([]))
    for names in (NUMBERED, INTEGERS, TEXTS):
        assert [names.find(nothing).tolist() for nothing in empty] == [[]] * len(empty)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (np.array([1.0]), "the heads are float64, which no node is called; give integers or texts."),
        (torch.tensor([1.0, 2.0]), "the heads are float32"),
        (torch.tensor([1.0], dtype=torch.bfloat16), "the heads are float32"),
        (np.array([True]), "the heads are bool"),
        (torch.tensor(True), "the heads are bool"),
        (pd.Series([True, False]), "the heads are bool"),
        (pd.Series(pd.to_datetime(["2020-01-01"])), "the heads are datetime64"),
        (np.array([1j]), "the heads are complex128"),
        (np.zeros((2, 3), dtype=np.int64), "the heads have the shape [2, 3]; give one name, or one row of them."),
        (torch.zeros(1, 1, dtype=torch.int64), "the heads have the shape [1, 1]"),
        ([True], "'True'"),
        ([1, False], "'False'"),
        (pd.Series([1.0, 1.5]), "'1.5'"),
        (pd.Series([1.0, None]), "'nan'"),
        (pd.Series([1, None], dtype="Int64"), "'<NA>'"),
        ([None], "'None'"),
        (None, "'None'"),
        ([[1, 2]], "'[1, 2]'"),
    ],
)
def test_what_holds_no_names_is_refused(names: object, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        NUMBERED.find(names, "the heads")  # type: ignore[arg-type]


def test_a_name_is_a_node_or_none() -> None:
    assert ("a,b" in TEXTS, "a" in TEXTS, 9 in TEXTS) == (True, False, True)
    assert ("9" in INTEGERS, 9 in INTEGERS, 8 in INTEGERS, "1,2" in NUMBERED) == (True, True, False, False)
    assert (None in NUMBERED, 1.0 in NUMBERED, True in NUMBERED) == (False, False, False)


@pytest.mark.slow
def test_a_million_integers_are_found_at_once() -> None:
    places = np.random.default_rng(0).permutation(MILLION)
    for names in (NodeNames(MILLION), NodeNames(MILLION, pd.Index(np.arange(MILLION) * 3))):
        asked = torch.from_numpy(names.array()[places])
        names.find(asked[:1])  # builds what is looked up in
        start = time.perf_counter()
        found = names.find(asked)
        assert time.perf_counter() - start < 1.0  # one by one it takes longer on any machine
        assert np.array_equal(found.numpy(), places)


PAIRS = [(4, 0), (1, 3), (2, 2)]


@pytest.mark.parametrize(
    "pairs",
    [
        PAIRS,
        tuple(PAIRS),
        iter(PAIRS),
        [list(pair) for pair in PAIRS],
        pd.DataFrame(PAIRS, columns=["from", "to"]).assign(note="x"),
        np.array(PAIRS),
        np.array(PAIRS).T,
        np.array(PAIRS).astype(str),
        torch.tensor(PAIRS),
        torch.tensor(PAIRS).T,
        torch.tensor(PAIRS, dtype=torch.int32).T,
    ],
)
def test_pairs_are_read_in_every_form(pairs: object) -> None:
    heads, tails = heads_and_tails(pairs)  # type: ignore[arg-type]
    assert NUMBERED.find(heads).tolist() == [4, 1, 2]
    assert NUMBERED.find(tails).tolist() == [0, 3, 2]


def test_one_pair_and_none() -> None:
    for pairs in ([(4, 0)], torch.tensor([[4, 0]]), torch.tensor([[4], [0]]), np.array([[4], [0]])):
        heads, tails = heads_and_tails(pairs)  # type: ignore[arg-type]
        assert (NUMBERED.find(heads).tolist(), NUMBERED.find(tails).tolist()) == ([4], [0])
    nothing = ([], pd.DataFrame({"a": [], "b": []}), torch.empty(2, 0), np.empty((0, 2)), np.array([]))
    for pairs in nothing:
        heads, tails = heads_and_tails(pairs)  # type: ignore[arg-type]
        assert NUMBERED.find(heads).numel() == NUMBERED.find(tails).numel() == 0


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (torch.tensor([[1, 2], [3, 4]]), "pairs [2, 2] may be heads above tails, or a pair in each row"),
        (np.array([[1, 2], [3, 4]]), "list(zip(heads, tails)), or [tuple(pair) for pair in pairs]"),
        (torch.zeros(3, 3, dtype=torch.int64), "the pairs have the shape [3, 3]; give tuples (head, tail)"),
        (torch.zeros(2, dtype=torch.int64), "the pairs have the shape [2]"),
        (torch.tensor(1), "the pairs have the shape []"),
        (torch.zeros(2, 3, 4, dtype=torch.int64), "the pairs have the shape [2, 3, 4]"),
        (torch.rand(2, 3), "the pairs are float32, which no node is called; give integers or texts."),
        (np.zeros((3, 2), dtype=bool), "the pairs are bool"),
        ((torch.tensor([1, 2]), torch.tensor([3, 4])), "pair 0 (counted from 0) is of type Tensor; give tuples"),
        ([[1, 2, 3], [4, 5, 6]], "pair 0 (counted from 0) has 3 names"),
        ([(1, 2), (3,)], "pair 1 (counted from 0) has 1 names"),
        (["ab", "cd"], "pair 0 (counted from 0) is of type str"),
        ([1, 2], "pair 0 (counted from 0) is of type int"),
        ("ab", "pairs cannot be read from str"),
        (7, "pairs cannot be read from int"),
        (None, "pairs cannot be read from NoneType"),
        ({(1, 2): 0.5}, "pairs cannot be read from dict"),
        (pd.Series([1, 2]), "pairs cannot be read from Series"),
        (pd.DataFrame({"a": [1]}), "pairs need two columns, heads and tails."),
    ],
)
def test_what_is_no_pairs_is_refused(pairs: object, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        heads_and_tails(pairs)  # type: ignore[arg-type]
