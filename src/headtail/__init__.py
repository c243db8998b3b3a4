"""headtail: predict the missing links of large graphs with asymmetric learning (AML)."""

from importlib import import_module
from typing import TYPE_CHECKING

from headtail.garbage import unwatched

if TYPE_CHECKING:
    from headtail.config import Config
    from headtail.errors import HeadtailError
    from headtail.graph.graph import Graph
    from headtail.graph.load import load
    from headtail.predictor import LinkPredictor

__version__ = "0.1.0"
__all__ = ["Config", "Graph", "HeadtailError", "LinkPredictor", "__version__", "load"]

_HOMES = {
    "Config": "headtail.config",
    "Graph": "headtail.graph.graph",
    "HeadtailError": "headtail.errors",
    "LinkPredictor": "headtail.predictor",
    "load": "headtail.graph.load",
}


def __getattr__(name: str) -> object:
    """Imports a public name when it is first used: torch takes seconds, which `headtail --help` need not wait for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'headtail' has no attribute {name!r}")
    with unwatched():
        value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
