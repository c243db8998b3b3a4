"""Values that readers stumble over, and trees of plain values with one of them put somewhere."""

import json
import math
import random
from collections.abc import Callable
from typing import Any

Tree = Any

INTEGERS = (0, 1, -1, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**12, 10**30, 10**400)
FLOATS = (0.0, -0.0, 1e-320, 1e308, math.inf, -math.inf, math.nan)
TEXTS = (
    "",
    " ",
    "\t",
    "\r",
    "\n",
    "\x00",
    "\x1b[31m",
    '"',
    "'",
    "''",
    '""',
    "#",
    "\\",
    "../../etc/passwd",
    "/etc/passwd",
    "NaN",
    "inf",
    "-inf",
    "null",
    "None",
    "true",
    "1e999",
    "0x10",
    "007",
    "+7",
    "-1",
    "9223372036854775808",
    "-9223372036854775809",
    "1" * 5000,
    "é",
    "\u202ekcab",
    "\ufeff",
    "\u0000x",
    "𝟏",
    "2024-13-45",
    "2024-05-31T25:61:00",
    "99999-01-01",
    "=1+1",
    "__index_level_0__",
)


def nasty(rng: random.Random) -> Tree:
    """Returns a single value or a small tree that nobody expects."""
    kinds: tuple[Callable[[], Tree], ...] = (
        lambda: rng.choice(INTEGERS),
        lambda: rng.choice(FLOATS),
        lambda: rng.choice(TEXTS),
        lambda: rng.choice((None, True, False)),
        lambda: rng.choice(([], {}, [[]], [None], {"": ""})),
        lambda: "x" * rng.choice((100, 10_000, 1_000_000)),
        lambda: nested(rng.choice((10, 500, 5_000))),
    )
    return rng.choice(kinds)()


def nested(depth: int) -> Tree:
    """Returns a list in a list in a list …"""
    tree: Tree = []
    for _ in range(depth):
        tree = [tree]
    return tree


def spoiled(rng: random.Random, tree: Tree) -> Tree:
    """Returns a copy of a tree of which one place is replaced, removed, doubled or renamed."""
    if isinstance(tree, dict) and tree:
        key = rng.choice(sorted(tree, key=str))
        way = rng.random()
        if way < 0.6:
            return {**tree, key: spoiled(rng, tree[key])}
        rest = {name: value for name, value in tree.items() if name != key}
        if way < 0.7:
            return rest
        if way < 0.8:
            return {**rest, str(nasty(rng))[:100_000]: tree[key]}
        return {**tree, key: nasty(rng)}
    if isinstance(tree, list) and tree:
        place, way = rng.randrange(len(tree)), rng.random()
        if way < 0.7:
            return [*tree[:place], spoiled(rng, tree[place]), *tree[place + 1 :]]
        return [*tree[:place], *tree[place + 1 :]] if way < 0.85 else [*tree, tree[place]]
    return nasty(rng)


def as_json(tree: Tree) -> bytes:
    """Writes a tree however deep it is."""
    depth, inner = 0, tree
    while isinstance(inner, list) and len(inner) == 1:
        depth, inner = depth + 1, inner[0]
    if depth > 400:
        return b"[" * depth + as_json(inner) + b"]" * depth
    try:
        return json.dumps(tree).encode()
    except (RecursionError, ValueError):  # something deep, or an integer of more digits than Python writes
        return b'{"a":' * 5_000 + b"1" * 5_000 + b"}" * 5_000
