"""Boosted trees as text: the part of LightGBM's format that predicting takes, checked entry by entry.

LightGBM believes what it reads: a damaged text ends the process, or never ends. So trees are kept in this form alone,
and a text from elsewhere is refused before LightGBM sees it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from math import isfinite

NUMBER = re.compile(r"-?[0-9]{1,9}")
REAL = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,40})?(e[-+]?[0-9]{1,3})?")
# Of a split: missing values go left (2), and what counts as missing (4, 8); an odd number would be a split by category.
KINDS = range(0, 12, 2)
PER_SPLIT = ("split_feature", "threshold", "decision_type", "left_child", "right_child")


def plain_trees(text: str, columns: int, most: int | None = None, first: int = 0) -> str:
    """Returns trees of a model in LightGBM's text, with nothing but what predicting takes.

    Args:
        columns: how many the trees may read.
        most: trees to keep; None: all.
        first: the first to keep.

    Raises:
        ValueError: they are not trees over so many columns.
    """
    return _written([_checked(fields, columns) for fields in list(_trees(text))[first:][:most]], columns)


def in_turn(texts: Sequence[str], columns: int) -> str:
    """Returns the trees of several models in turn, as `plain_trees` does: they say the sum of what the models say."""
    models = [[_checked(fields, columns) for fields in _trees(text)] for text in texts]
    return _written([tree for trees in zip_longest(*models) for tree in trees if tree is not None], columns)


def _written(trees: Sequence[str], columns: int) -> str:
    if not trees or not columns:
        raise ValueError("there are no trees, or no columns for them")
    names = " ".join(f"Column_{column}" for column in range(columns))
    head = [
        *("tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0"),
        *(f"max_feature_idx={columns - 1}", f"feature_names={names}", f"feature_infos={' '.join(['none'] * columns)}"),
    ]
    parts = [f"Tree={number}\n{tree}\n" for number, tree in enumerate(trees)]
    return "\n".join([*head, "", *parts, "end of trees", ""])


def _trees(text: str) -> Iterator[dict[str, str]]:
    """Yields the fields of every tree."""
    whole, end, _ = text.partition("\nend of trees")
    if not end:
        raise ValueError("the end is missing")
    for part in re.split(r"^Tree=[0-9]+\n", whole, flags=re.MULTILINE)[1:]:
        yield dict(line.split("=", 1) for line in part.splitlines() if "=" in line)


def _checked(fields: Mapping[str, str], columns: int) -> str:
    """Returns the lines of a tree, whose splits and leaves must all hang together."""
    leaf_values = _reals(fields, "leaf_value")
    leaves = len(leaf_values)
    if not leaves or _numbers(fields, "num_leaves") != [leaves] or fields.get("num_cat") != "0":
        raise ValueError("a tree has other leaves than it says")
    lines = [f"num_leaves={leaves}", "num_cat=0", f"leaf_value={' '.join(leaf_values)}", "is_linear=0", "shrinkage=1"]
    if leaves == 1:
        return "\n".join(lines)
    read, kinds, left, right = (_numbers(fields, name) for name in PER_SPLIT if name != "threshold")
    if any(len(each) != leaves - 1 for each in (read, _reals(fields, "threshold"), kinds, left, right)):
        raise ValueError("a tree has other splits than leaves")
    if not all(0 <= column < columns for column in read) or not all(kind in KINDS for kind in kinds):
        raise ValueError("a tree splits by what is no column")
    # A child stands after its parent, and everything but the first split is one child: so there are no circles.
    if any(0 <= child <= parent for side in (left, right) for parent, child in enumerate(side)):
        raise ValueError("a tree leads back to itself")
    if sorted(left + right) != [*range(-leaves, 0), *range(1, leaves - 1)]:
        raise ValueError("a tree has loose ends")
    return "\n".join([*lines, *(f"{name}={' '.join(fields[name].split())}" for name in PER_SPLIT)])


def _numbers(fields: Mapping[str, str], name: str) -> list[int]:
    found = fields.get(name, "").split()
    if not all(NUMBER.fullmatch(each) for each in found):
        raise ValueError(f"{name} of a tree holds what is no number")
    return [int(each) for each in found]


def _reals(fields: Mapping[str, str], name: str) -> list[str]:
    found = fields.get(name, "").split()
    if not all(REAL.fullmatch(each) and isfinite(float(each)) for each in found):
        raise ValueError(f"{name} of a tree holds what is no number")
    return found
