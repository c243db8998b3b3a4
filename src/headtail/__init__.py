"""headtail: predict the missing links of large graphs with asymmetric learning (AML)."""

from headtail.config import Config
from headtail.errors import HeadtailError
from headtail.graph.graph import Graph
from headtail.graph.load import load
from headtail.predictor import LinkPredictor

__version__ = "0.1.0"
__all__ = ["Config", "Graph", "HeadtailError", "LinkPredictor", "__version__", "load"]
