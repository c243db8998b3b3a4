"""A link prediction task: a graph with a proven split, ready for any method."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

from torch import Tensor

from headtail.config import Config
from headtail.errors import ConfigError
from headtail.graph.audit import LeakAudit, audit, audit_test_view, clean_split
from headtail.graph.csr import CSR
from headtail.graph.features import NodeInputs, make_features
from headtail.graph.graph import Graph
from headtail.graph.message import add_self_loops
from headtail.graph.packed.graph import PackedGraph
from headtail.graph.split import Split, make_split, train_on_validation, with_negatives
from headtail.graph.view import GraphView, ServingView


@dataclass(frozen=True)
class LinkTask:
    """What methods learn from and are judged on.

    Attributes:
        train_view: training links, the evidence for validation; with validation links under val-as-train.
        test_view: the evidence for the test: training links, with validation links where the task says so.
        metric: "mrr" or "hits@K".
        feature_maker: makes `inputs` when the first method asks for them; heuristics, for one, never do.
    """

    graph: Graph
    split: Split
    metric: str
    leaks: LeakAudit
    train_view: GraphView
    test_view: GraphView
    feature_maker: Callable[[], NodeInputs]

    @cached_property
    def features(self) -> Tensor:
        """float32 [N, d], what nodes are described by where the training links are known."""
        return self.inputs.seen_in(self.train_view)

    @cached_property
    def inputs(self) -> NodeInputs:
        """The graph's own features and structural ones, for any view."""
        return self.feature_maker()

    @property
    def protocol(self) -> str:
        """What may be seen of held-out links: clean, ogb or val-as-train. Figures of two protocols do not compare."""
        return self.leaks.protocol

    @cached_property
    def known(self) -> CSR:
        """Every link of the data, head → tail, also the held-out ones."""
        if isinstance(self.graph, PackedGraph):
            return self.graph.known
        return self.serving_view.out_rows

    @cached_property
    def serving_view(self) -> ServingView:
        """Every link of the data, to answer from; nothing may be judged by it.

        Raises:
            ConfigError: the graph is packed, and with it the rows of its training links alone.
        """
        if isinstance(self.graph, PackedGraph):
            raise ConfigError(
                f"{self.graph.source} is packed, and only its training links are laid out for encoding; ask with "
                "evidence training."
            )
        return self.split.serving_view(self.train_view)


@dataclass(frozen=True)
class ProvenSplit:
    """A split with negatives, the metric they are for, what may be seen, and the proof that nothing else is."""

    split: Split
    metric: str
    leaks: LeakAudit
    train_view: GraphView
    test_view: GraphView


def prove_split(graph: Graph, config: Config) -> ProvenSplit:
    """Splits a graph, draws what negatives are missing, and audits the result for leaks."""
    metric = config.evaluation.metric
    if metric == "auto":
        metric = graph.metric or "mrr"
    protocol, seed = config.split.protocol, config.training.seed
    _refuse_dropping(config)
    if isinstance(graph, PackedGraph) and (protocol != "clean" or config.split.drop_reversed):
        wanted = "drop_reversed" if protocol == "clean" else f"protocol {protocol}"
        raise ConfigError(
            f"{graph.source} is packed with a clean split, which {wanted} would change; leave it out, or load links."
        )
    # Under val-as-train they are training links, which both views show.
    test_sees_valid = config.evaluation.test_graph == "train+valid" and protocol != "val-as-train"
    split, dropped = make_split(graph, config.split, seed), 0
    if isinstance(graph, PackedGraph):  # was cleaned when it was packed; the audit below proves it
        dropped = graph.dropped
    elif protocol == "clean":
        split, dropped = clean_split(
            split,
            graph.num_nodes,
            graph.directed,
            config.split.drop_leaks,
            config.split.drop_reversed,
            test_sees_valid,
            metric,
        )
    elif protocol == "val-as-train":
        split = train_on_validation(split, graph.num_nodes, graph.directed)
    split = with_negatives(split, graph, metric, config.evaluation.eval_negatives, seed)
    train_view = training_view(graph, split)
    test_view = train_view.with_links(split.valid.positives) if test_sees_valid else train_view
    messages = add_self_loops(train_view)
    leaks = audit(split, train_view.out_rows, messages, graph.num_nodes, graph.directed, dropped, protocol)
    leaks = replace(leaks, in_test_graph=audit_test_view(split, test_view, protocol))
    return ProvenSplit(split, metric, leaks, train_view, test_view)


def training_view(graph: Graph, split: Split) -> GraphView:
    """Returns the training links: those in the files of a packed graph, else those of the split."""
    return graph.view if isinstance(graph, PackedGraph) else split.training_view(graph.num_nodes, graph.directed)


def _refuse_dropping(config: Config) -> None:
    """Refuses to drop links under a protocol that takes the split as it is."""
    protocol = config.split.protocol
    for setting in ("drop_leaks", "drop_reversed"):
        if protocol != "clean" and getattr(config.split, setting):
            raise ConfigError(
                f"{setting} contradicts protocol {protocol}, which keeps every link as published; leave one out."
            )


def make_task(graph: Graph, config: Config) -> LinkTask:
    """Returns a graph with a proven split, and structural features where they are wanted."""
    p = prove_split(graph, config)
    features = partial(make_features, graph, p.train_view, config)
    return LinkTask(graph, p.split, p.metric, p.leaks, p.train_view, p.test_view, features)
