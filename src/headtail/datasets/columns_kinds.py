"""Decides what a column of a node table is to a model: numbers, categories, text, or nothing to learn from.

A column is worth its place if nodes share something in it. Numbers are compared by size, categories by being
the same, texts by the words they have in common. Text files hold strings only, so that numbers, truth values and
dates are recognised by how they are written; the same table as CSV, Parquet or DataFrame is judged alike.
"""

import re
from collections import Counter
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headtail.datasets.columns_written import Doubles, with_nan, written_dates, written_numbers, written_truth
from headtail.datasets.raw import Ints
from headtail.datasets.tables import Table
from headtail.errors import DataError

# So few labels, each borne so often, are categories whatever words they are made of.
_FEW_LABELS, _OFTEN = 64, 5
# So few whole numbers, each borne so often, are codes or grades; as categories they lose nothing.
_FEW_CODES, _VERY_OFTEN = 20, 10
_SAMPLE = 10_000
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Numbers:
    """A column to compare by size: `values` [N], NaN where one is missing."""

    name: str
    values: Doubles


@dataclass(frozen=True)
class Categories:
    """A column to compare by equality: `codes` [N] of the values in sorted order, −1 where one is missing."""

    name: str
    codes: Ints


@dataclass(frozen=True)
class Texts:
    """A column to compare by words: `values` [N], empty where one is missing."""

    name: str
    values: list[str]


@dataclass(frozen=True)
class Unused:
    """A column that tells nothing, and why."""

    name: str
    reason: str


Column: TypeAlias = Numbers | Categories | Texts | Unused


def judge_column(table: Table, name: str, values: pa.ChunkedArray, named: bool = False) -> Column:
    """Returns what a column is; one that the user `named` is not left out for looking like an id.

    Raises:
        DataError: If a number is infinite.
    """
    kind = values.type
    declared = pa.types.is_dictionary(kind)
    if declared:
        values, kind = values.cast(kind.value_type), kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _judge_strings(table, name, values, named, declared)
    if pa.types.is_null(kind):
        return Unused(name, "empty")
    numbers = _typed_numbers(values)
    if numbers is None:
        return Unused(name, f"holds {kind}")
    _refuse_infinite(table, name, numbers)
    if pa.types.is_temporal(kind):
        return _judge_amounts(name, numbers)
    return _judge_numbers(name, numbers, named, declared)


def _typed_numbers(values: pa.ChunkedArray) -> Doubles | None:
    """Returns numbers, truth values, dates and spans of time as float64, None for any other type."""
    kind = values.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        values = values.cast(pa.int32())
    elif (
        pa.types.is_date64(kind)
        or pa.types.is_time64(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
    ):
        values = values.cast(pa.int64())
    elif pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    return with_nan(values.cast(pa.float64(), safe=False))


def _judge_numbers(name: str, numbers: Doubles, named: bool, declared: bool = False) -> Column:
    """Tells amounts from ids, codes and grades, which are whole numbers."""
    missing = np.isnan(numbers)
    distinct, present = np.unique(numbers[~missing]), int((~missing).sum())
    repeat = len(distinct) < present
    whole = bool(np.all(np.trunc(distinct) == distinct)) and len(distinct) > 2
    if whole and not repeat and not named:
        return Unused(name, "whole numbers that are all different, as of an id")
    few = len(distinct) <= _FEW_CODES and present >= _VERY_OFTEN * len(distinct)
    if repeat and len(distinct) > 1 and (declared or (whole and few)):
        return Categories(name, np.where(missing, -1, np.searchsorted(distinct, numbers)).astype(np.int64))
    return _judge_amounts(name, numbers)


def _judge_amounts(name: str, numbers: Doubles) -> Column:
    missing = np.isnan(numbers)
    if missing.all():
        return Unused(name, "empty")
    if not missing.any() and np.all(numbers == numbers[0]):
        return Unused(name, "the same everywhere")
    return Numbers(name, numbers)


def _refuse_infinite(table: Table, name: str, numbers: Doubles) -> None:
    infinite = np.isinf(numbers)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise DataError(
            f"{table.source}, {table.where(row)}: {numbers[row]} in column {name!r} is no finite number; replace it, "
            "or name the columns to use without this one (columns, --columns)"
        )


def _judge_strings(table: Table, name: str, values: pa.ChunkedArray, named: bool, declared: bool) -> Column:
    codes, distinct = _encoded(values)
    if len(distinct) == 0:
        return Unused(name, "empty")
    if not declared:
        # Only distinct strings are looked at, however many rows hold them; −1, a missing one, finds the NaN at the end.
        numbers = written_numbers(distinct)
        if numbers is not None:
            numbers = np.append(numbers, np.nan)[codes]
            _refuse_infinite(table, name, numbers)
            return _judge_numbers(name, numbers, named)
        amounts = written_truth(distinct)
        if amounts is None:
            amounts = written_dates(distinct)
        if amounts is not None:
            return _judge_amounts(name, np.append(amounts, np.nan)[codes])
    return _judge_labels(name, codes, distinct, named, declared)


def _judge_labels(name: str, codes: Ints, distinct: pa.Array, named: bool, declared: bool) -> Column:
    """Tells categories, whose values nodes share, from text, whose words they share."""
    count, present = len(distinct), int((codes >= 0).sum())
    if count == 1 and present == len(codes):
        return Unused(name, "the same everywhere")
    holders = np.bincount(codes[codes >= 0], minlength=count)
    shared = 2 * int(holders[holders > 1].sum()) >= present
    if (count <= _FEW_LABELS and present >= _OFTEN * count) or (declared and shared):
        return _categories(name, codes, distinct)
    if _share_words(distinct) or (named and not shared):
        texts = np.append(distinct.to_numpy(zero_copy_only=False), "")
        return Texts(name, texts[codes].tolist())
    if shared:
        return _categories(name, codes, distinct)
    return Unused(name, "names or codes that share no words")


def _categories(name: str, codes: Ints, distinct: pa.Array) -> Categories:
    """Numbers the values in sorted order, whatever order rows come in."""
    place = np.empty(len(distinct), dtype=np.int64)
    place[pc.array_sort_indices(distinct).to_numpy()] = np.arange(len(distinct))
    return Categories(name, np.append(place, -1)[codes])


def _share_words(distinct: pa.Array) -> bool:
    """Whether a third of the values have a telling word: one of at least two, but of no more than half of them.

    Telling words must be many, or several in a value: "author-17" and "paper-17" are ids of two kinds, no texts.
    """
    step = -(-len(distinct) // _SAMPLE)
    sample = [_words(text) for text in distinct.take(pa.array(range(0, len(distinct), step))).to_pylist()]
    holders = Counter(word for words in sample for word in words)
    most = max(2, len(sample) // 2)
    telling = {word for word, count in holders.items() if 2 <= count <= most}
    if len(telling) ** 2 < len(sample) and sum(holders.values()) < 2 * len(sample):
        return False
    return 3 * sum(not words.isdisjoint(telling) for words in sample) >= len(sample)


def _words(text: str) -> set[str]:
    """Returns what in a text reads as a word: "python3-foo" has "python" and "foo", the hash "84ea12fc" has none."""
    runs = (run.rstrip("0123456789") for run in _WORD.findall(text.lower()))
    return {run for run in runs if len(run) > 2 and run.isalpha()}


def _encoded(values: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Returns for every row the position of its trimmed string among the distinct ones, −1 for an empty one."""
    trimmed = pc.utf8_trim_whitespace(values.cast(pa.large_string()))
    filled = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.large_string()), trimmed)
    encoded = pa.chunked_array(filled.chunks, pa.large_string()).combine_chunks().dictionary_encode()
    return encoded.indices.fill_null(-1).to_numpy().astype(np.int64), encoded.dictionary
