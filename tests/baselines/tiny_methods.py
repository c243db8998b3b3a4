"""Methods that learn, trained for a blink on the graphs that the contract is tested on."""

from functools import cache
from typing import Any

import torch
from method_case import NODES, random_view

from headtail.config import Config, make_config
from headtail.contract import Method, Scorer
from headtail.datasets.raw import RawGraph
from headtail.graph.graph import build_graph
from headtail.graph.task import LinkTask, make_task
from headtail.graph.view import GraphView
from headtail.methods import make_method
from headtail.training.learner import Learner


def tiny_task(config: Config, directed: bool, dated: bool = False) -> LinkTask:
    """A task on the graph that the contract is tested on, with three columns of features."""
    view = random_view(directed, dated=dated)
    features = torch.randn(NODES, 3, generator=torch.Generator().manual_seed(3)).numpy()
    times = None if view.times is None else view.times.numpy()
    raw = RawGraph("a test", NODES, view.links.numpy(), directed, times=times, features=features)
    return make_task(build_graph(raw), config)


@cache
def tiny_method(name: str, directed: bool, device: str = "cpu", dated: bool = False) -> Learner[Any]:
    """Returns the method trained for two epochs on such a task, on the CPU; `device` is where it then scores."""
    tiny = {"hidden": 8, "structure": 4, "eval_negatives": 5, "epochs": 2, "precision": "fp32"}
    config = make_config(settings={"method": name, "device": device, **tiny})
    method = make_method(tiny_task(config, directed, dated), config)
    assert isinstance(method, Learner)
    if device == "cpu":
        method.fit(None)
    else:
        method.restore(tiny_method(name, directed, dated=dated).weights())
    return method


class ForAnyView(Method):
    """A method is made for directed or undirected graphs, dated or not, and for a device; this hands a view to the
    right one.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def encode(self, view: GraphView) -> Scorer:
        dated = view.times is not None
        return tiny_method(self.name, view.directed, view.links.device.type, dated).scorer(view)
