"""What every reader returns: plain arrays, before anything is known about graphs."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True)
class RawSplit:
    """A split that came with the data.

    `valid`, `test` are links [2, P]. Negatives are pairs [2, M] shared by all positives (hits@K) or
    tails [P, K] of each positive's head (mrr); None where the data has none.
    """

    valid: Ints
    test: Ints
    valid_negatives: Ints | None = None
    test_negatives: Ints | None = None


@dataclass(frozen=True)
class RawGraph:
    """Links and node facts as they were read; nodes are numbered 0 … num_nodes − 1.

    `links` [2, E] holds the training links where `split` is given, all links otherwise. `names` gives the
    node ids of the user in node order (integers or strings), None where they are the numbers themselves.
    `times` [E] dates the links. `features` is float32 [num_nodes, d]; `features_note` says in words what was made of
    the columns of a node table, empty where features come otherwise.
    """

    source: str
    num_nodes: int
    links: Ints
    directed: bool
    names: pd.Index | None = None
    times: Ints | None = None
    features: Floats | None = None
    split: RawSplit | None = None
    metric: str | None = None
    features_note: str = ""
