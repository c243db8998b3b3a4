"""Makes node features of a node table, each column after its kind, and says what was made of which."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from headtail.datasets.columns_blocks import category_block, number_block
from headtail.datasets.columns_kinds import Categories, Column, Numbers, Texts, Unused, judge_column
from headtail.datasets.raw import Floats
from headtail.datasets.tables import FrameTable, Table
from headtail.errors import DataError

_MOST_LISTED = 8


@dataclass(frozen=True)
class NodeFeatures:
    """Features [N, d], None where nothing makes any, and in words what was made of the columns of a table."""

    features: Floats | None = None
    note: str = ""


def column_features(table: Table, key: str, names: Sequence[str], named: bool = False) -> NodeFeatures:
    """Makes features of the columns `names`: text, then categories, then numbers; the same in every call.

    Entries have a mean square of about 1, and rows of each of the three blocks about the same length.

    The id column `key` may be among them: ids that have words in common tell something. Columns that the user
    `named` are used even if they look like ids.

    Raises:
        DataError: If a number is infinite.
    """
    columns = _judged(table, names, named)
    texts = [column for column in columns if isinstance(column, Texts)]
    categories = [column for column in columns if isinstance(column, Categories)]
    numbers = [column for column in columns if isinstance(column, Numbers)]
    blocks: list[Floats] = []
    parts: list[str] = []
    if texts:
        blocks.append(_text_block(texts))
        parts.append(_part(blocks[-1], "the text", texts))
    if categories:
        blocks.append(category_block(categories))
        parts.append(_part(blocks[-1], "the categories", categories))
    if numbers:
        blocks.append(number_block(numbers))
        parts.append(_part(blocks[-1], "the numbers", numbers))
    # An id that is just an id is what everyone expects; the other columns that are left out are named.
    unused = [column for column in columns if isinstance(column, Unused) and (named or column.name != key)]
    features = _side_by_side(blocks) if blocks else None
    return NodeFeatures(features, _note(table.source, features, parts, unused))


def _judged(table: Table, names: Sequence[str], named: bool) -> list[Column]:
    """Returns what each column is; one of a DataFrame that mixes types is left out unless it was asked for."""
    try:
        loaded = table.load(names)
    except DataError:
        if named or not isinstance(table, FrameTable):
            raise
        if len(names) == 1:
            return [Unused(names[0], "mixes types")]
        return [column for name in names for column in _judged(table, [name], named)]
    return [judge_column(table, name, values, named) for name, values in zip(names, loaded, strict=True)]


def _text_block(columns: Sequence[Texts]) -> Floats:
    # Imported here: scikit-learn takes a second to import, and most tables come without text.
    from headtail.datasets.text import join_texts, text_features

    return text_features(join_texts(pd.DataFrame({column.name: column.values for column in columns})))


def _side_by_side(blocks: Sequence[Floats]) -> Floats:
    """Joins blocks, whose entries have mean square 1, so that all weigh the same and entries keep that mean square.

    Two columns of numbers beside 128 of text would else be a sixtieth of what a model sees at first. Rows of each of
    B blocks get a length of about √(d / B), where d is the width of all.
    """
    width = sum(block.shape[1] for block in blocks)
    weights = [np.sqrt(width / (len(blocks) * block.shape[1])) for block in blocks]
    return np.concatenate([block * np.float32(weight) for block, weight in zip(blocks, weights, strict=True)], axis=1)


def _part(block: Floats, what: str, columns: Sequence[Column]) -> str:
    return f"{block.shape[1]} from {what} of {_listed([repr(column.name) for column in columns])}"


def _note(source: str, features: Floats | None, parts: Sequence[str], unused: Sequence[Unused]) -> str:
    """Says what was made of the columns, without a full stop; nothing where there is nothing to say."""
    if features is None and not unused:
        return ""
    count = "no features" if features is None else f"{features.shape[1]} feature columns: {', '.join(parts)}"
    left_out = [f"{column.name!r} ({column.reason})" for column in unused]
    return f"{source} gave {count}" + (f"; left out {_listed(left_out)}" if left_out else "")


def _listed(words: Sequence[str]) -> str:
    """Returns "a, b and c", of a long list only the beginning."""
    if len(words) > _MOST_LISTED:
        words = [*words[: _MOST_LISTED - 1], f"{len(words) - _MOST_LISTED + 1} others"]
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
