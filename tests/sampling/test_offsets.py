"""Random offsets without replacement: distinct, complete, uniform."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from headtail.graph.csr import all_entries
from headtail.kernels.offsets import distinct_offsets


@given(st.lists(st.integers(0, 12), max_size=8), st.integers(1, 7))
def test_as_many_distinct_offsets_as_there_are(degrees: list[int], count: int) -> None:
    drawn = distinct_offsets(torch.tensor(degrees, dtype=torch.int64), count, torch.Generator().manual_seed(0))
    assert drawn.shape == (len(degrees), count)
    for row, degree in zip(drawn.tolist(), degrees, strict=True):
        taken = min(count, degree)
        assert row[taken:] == [-1] * (count - taken)
        assert len(set(row[:taken])) == taken
        assert all(0 <= offset < degree for offset in row[:taken])


@pytest.mark.parametrize(("degree", "count"), [(5, 2), (4, 3), (6, 1), (3, 3), (3, 5)])
def test_every_ordered_choice_is_equally_likely(degree: int, count: int) -> None:
    # Order matters: the first ones drawn are kept by BNS, the others blocked.
    repeats = 20_000
    drawn = distinct_offsets(torch.full((repeats,), degree), count, torch.Generator().manual_seed(1))
    choices = list(itertools.permutations(range(degree), min(count, degree)))
    found = drawn[:, : min(count, degree)]
    keys = [tuple(row) for row in found.tolist()]
    counts = [0] * len(choices)
    place = {choice: number for number, choice in enumerate(choices)}
    for key in keys:
        counts[place[key]] += 1
    assert chisquare(counts).pvalue > 1e-3


def test_rows_are_drawn_independently() -> None:
    drawn = distinct_offsets(torch.full((20_000, 2), 4).flatten(), 1, torch.Generator().manual_seed(2)).view(-1, 2)
    counts = torch.bincount(drawn[:, 0] * 4 + drawn[:, 1], minlength=16)
    assert chisquare(counts.numpy()).pvalue > 1e-3


def test_large_degrees_reach_the_last_entry(generator: torch.Generator) -> None:
    degree = 10**7
    drawn = distinct_offsets(torch.full((4000,), degree), 5, generator)
    assert int(drawn.max()) < degree
    assert int(drawn.max()) > 0.999 * degree
    assert int(drawn.min()) < 0.001 * degree
    assert abs(float(drawn.double().mean()) / degree - 0.5) < 0.01


def test_all_entries_lists_rows_one_after_the_other() -> None:
    owner, offset = all_entries(torch.tensor([2, 0, 3]))
    assert owner.tolist() == [0, 0, 2, 2, 2]
    assert offset.tolist() == [0, 1, 0, 1, 2]
