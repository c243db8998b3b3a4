"""Node names: from what the user knows to node numbers and back."""

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headtail.errors import DataError
from headtail.graph.names import NodeNames

LARGE = [2**53, 2**53 + 1, 2**62 + 3, -(2**60) - 1]


@pytest.mark.slow
@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=8, unique=True))
def test_strings_go_there_and_back(names: list[str]) -> None:
    known = NodeNames(len(names), pd.Index(names))
    assert known.find(names).tolist() == list(range(len(names)))
    assert known.of(torch.arange(len(names))) == names
    assert known.array().tolist() == names


@given(st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=1, max_size=8, unique=True))
def test_integers_are_found_as_numbers_and_as_text(names: list[int]) -> None:
    known = NodeNames(len(names), pd.Index(names, dtype="int64"))
    numbers = list(range(len(names)))
    assert known.find(names).tolist() == numbers
    assert known.find([str(name) for name in names]).tolist() == numbers
    assert known.of(torch.tensor(numbers)) == names


def test_integers_beyond_float_precision_stay_apart() -> None:
    known = NodeNames(4, pd.Index(LARGE))
    assert known.find([LARGE[1], str(LARGE[0]), LARGE[2], LARGE[3]]).tolist() == [1, 0, 2, 3]
    with pytest.raises(DataError, match=str(2**53 + 2)):
        known.find([2**53 + 2])


def test_names_of_are_plain_python_values() -> None:
    numbered, named = NodeNames(3), NodeNames(2, pd.Index(["a", "b"]))
    assert [type(name) for name in numbered.of(torch.tensor([2, 0]))] == [int, int]
    assert [type(name) for name in named.of(torch.tensor([1]))] == [str]


def test_without_names_nodes_are_their_numbers() -> None:
    known = NodeNames(3)
    assert known.find([2, "0"]).tolist() == [2, 0]
    assert known.array().tolist() == [0, 1, 2]
    for wrong in (3, -1, "three", "", 2**63, 2**70, "1.0"):
        with pytest.raises(DataError, match="numbers 0 to 2"):
            known.find([0, wrong])


def test_text_that_looks_like_a_number_stays_text() -> None:
    known = NodeNames(3, pd.Index(["007", "7", "a"]))
    assert known.find(["7", "007", 7]).tolist() == [1, 0, 1]


def test_nothing_asked_nothing_found() -> None:
    for known in (NodeNames(3), NodeNames(2, pd.Index(["a", "b"])), NodeNames(2, pd.Index(LARGE[:2]))):
        assert known.find([]).shape == (0,)


def test_unknown_names_are_counted_and_the_nearest_is_offered() -> None:
    known = NodeNames(3, pd.Index(["firefox-esr", "vim", "python3"]))
    with pytest.raises(DataError, match=r"2 of 3 node names in my\.csv .*'firefox-ers'; did you mean 'firefox-esr'\?"):
        known.find(["vim", "firefox-ers", "nope"], "my.csv")


def test_a_name_like_no_other_gets_examples() -> None:
    known = NodeNames(3, pd.Index(["firefox-esr", "vim", "python3"]))
    with pytest.raises(DataError, match="names look like 'firefox-esr'"):
        known.find(["zzz"])


def test_the_hint_stays_a_sentence_among_many_names() -> None:
    known = NodeNames(3000, pd.Index([f"lib{i:05d}" for i in range(3000)]))
    with pytest.raises(DataError) as caught:
        known.find(["lib-of-something-else"])
    assert len(str(caught.value)) < 400


def test_a_fraction_is_no_node() -> None:
    with pytest.raises(DataError):
        NodeNames(3).find([1.5])  # type: ignore[list-item]


def test_infinity_is_no_node() -> None:
    with pytest.raises(DataError):
        NodeNames(3).find([float("inf")])  # type: ignore[list-item]
