"""Batches drawn in a thread of their own: same order, errors told, nothing left running."""

import itertools
import threading
from collections.abc import Iterator

import pytest

from headtail.training.ahead import drawn_ahead


def test_order_is_kept_and_nothing_is_lost() -> None:
    assert list(drawn_ahead(iter(range(1, 100)))) == list(range(1, 100))
    assert list(drawn_ahead(iter([]))) == []


def test_an_error_while_drawing_is_raised_where_it_matters() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    drawn = drawn_ahead(broken())
    assert next(drawn) == 1
    with pytest.raises(ValueError, match="no more"):
        next(drawn)


def test_leaving_early_ends_the_thread() -> None:
    drawn = drawn_ahead(itertools.count(1))
    assert next(drawn) == 1
    drawn.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name == "headtail-batches"]


def test_only_a_few_batches_are_drawn_ahead() -> None:
    made: list[int] = []

    def counted() -> Iterator[int]:
        for i in range(1, 50):
            made.append(i)
            yield i

    drawn = drawn_ahead(counted(), depth=2)
    next(drawn)
    assert len(made) <= 1 + 2 + 1  # one given, two ready, one in hand
    drawn.close()  # type: ignore[attr-defined]
