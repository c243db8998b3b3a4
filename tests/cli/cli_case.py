"""What the tests of the command line share: a tiny graph with text ids, and what a command answered."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Flags that make training take a tenth of a second.
SMALL = ("--epochs", "2", "--hidden", "8", "--structure", "8", "--eval-negatives", "20", "--device", "cpu")


@dataclass(frozen=True)
class Answer:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The whole of stdout, which must be one JSON object."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


Cli = Callable[..., Answer]


def community_links() -> list[tuple[str, str]]:
    """400 directed links among p00 … p59, within communities of twelve; sorted, no repeats, no self-loops."""
    rng, links = random.Random(0), set()
    while len(links) < 400:
        head = rng.randrange(60)
        tail = head // 12 * 12 + rng.randrange(12)
        if head != tail:
            links.add((f"p{head:02}", f"p{tail:02}"))
    return sorted(links)


def write_links(path: Path, links: list[tuple[str, str]], header: str = "from,to") -> Path:
    path.write_text("\n".join([header, *(f"{head},{tail}" for head, tail in links)]) + "\n", encoding="utf-8")
    return path
