"""Answers in parts: the same table however often it was cut short, and nothing that was finished is made again."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import headtail.serving.parts
from headtail.serving.parts import write_in_parts


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headtail.serving.parts, "HEADS_PER_PART", 4)


class Answering:
    """Answers with two rows a head, and dies at a head that it is told."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.asked: list[int] = []
        self.dies_at = dies_at

    def __call__(self, first: int, last: int) -> Iterator[pd.DataFrame]:
        for head in range(first, last):
            if head == self.dies_at:
                raise KeyboardInterrupt
            self.asked.append(head)
            yield pd.DataFrame(
                {"head": [f"n{head}"] * 2, "tail": ["a", "b"], "score": [1.0 * head, 0.5], "rank": [1, 2]}
            )


@pytest.mark.parametrize("name", ["links.parquet", "links.csv"])
@pytest.mark.parametrize("heads", [1, 4, 5, 14])
def test_what_was_finished_is_taken_over(name: str, heads: int, tmp_path: Path) -> None:
    whole, path = tmp_path / "whole" / name, tmp_path / "cut" / name
    assert write_in_parts(Answering(), heads, whole, "key") == 2 * heads
    for dies_at in (3, 6, 13):
        if dies_at < heads:
            with pytest.raises(KeyboardInterrupt):
                write_in_parts(Answering(dies_at), heads, path, "key")
            assert not path.exists()
            left = [each.name for each in path.parent.iterdir()]
            assert left == ([f".{name}.parts"] if dies_at > 4 < heads else [])
    last = Answering()
    assert write_in_parts(last, heads, path, "key") == 2 * heads
    # The last one died in the fourth part; what is one part, or died in the first, is made from the beginning.
    assert last.asked == list(range(12 if heads == 14 else 0, heads))
    assert path.read_bytes() == whole.read_bytes()
    assert [each.name for each in path.parent.iterdir()] == [name]


def test_parts_of_other_answers_are_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "links.csv"
    with pytest.raises(KeyboardInterrupt):
        write_in_parts(Answering(6), 10, path, "one model")
    other = Answering()
    write_in_parts(other, 10, path, "another")
    assert other.asked == list(range(10))
