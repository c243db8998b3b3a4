"""Where graphs come from: files, named data sets, synthetic graphs, objects of other libraries."""

from headtail.datasets.catalog import DATASETS
from headtail.datasets.raw import RawGraph, RawSplit
from headtail.datasets.read import read

__all__ = ["DATASETS", "RawGraph", "RawSplit", "read"]
