"""The paper's Table 1: its formulas evaluated on a graph, beside the node encodings that a real epoch counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headtail.config import Config
from headtail.experiments.results import RunResult
from headtail.experiments.tables import NOTHING, markdown_table
from headtail.experiments.variants import variant_named
from headtail.graph.view import GraphView


@dataclass(frozen=True)
class Sizes:
    """What the formulas need.

    Attributes:
        nodes: N.
        links: |E|, training links per epoch; an undirected one counts twice.
        degree: s, neighbours per node in the message graph, which is symmetric; without self-loops.
        layers: L.
        hops: k of the local methods.
        hidden: r of the global methods.
        local_hidden: r of the local ones.
    """

    nodes: int
    links: int
    degree: float
    layers: int
    hops: int
    hidden: int
    local_hidden: int

    @property
    def gnn(self) -> float:
        """C = s^L · r², the cost of one representation by the GNN."""
        return float(self.degree**self.layers * self.hidden**2)

    @property
    def mlp(self) -> float:
        """M = L · r², the cost of one representation by the MLP."""
        return float(self.layers * self.hidden**2)

    @property
    def local(self) -> float:
        """L · s^k · r², the cost of one side of an enclosing subgraph."""
        return float(self.layers * self.degree**self.hops * self.local_hidden**2)


# variant: the formula in words, and evaluated
FORMULAS: dict[str, tuple[str, Callable[[Sizes], float]]] = {
    "seal": ("2·L·s^k·r²·|E|", lambda z: 2 * z.local * z.links),
    "seal-rws": ("2·L·s^k·r²·|E|", lambda z: 2 * z.local * z.links),
    "degnn": ("2·L·s^k·r²·|E|", lambda z: 2 * z.local * z.links),
    "degnn-rws": ("2·L·s^k·r²·|E|", lambda z: 2 * z.local * z.links),
    "sage": ("2·s^L·r²·|E|", lambda z: 2 * z.gnn * z.links),
    "sage-rws": ("s^L·r²·(|E| + N)", lambda z: z.gnn * (z.links + z.nodes)),
    "aml-edges": ("(s^L·r² + L·r²)·|E|", lambda z: (z.gnn + z.mlp) * z.links),
    "aml": ("s^L·r²·N + L·r²·|E|", lambda z: z.gnn * z.nodes + z.mlp * z.links),
}


def sizes_of(view: GraphView, config: Config, local: Config) -> Sizes:
    """Measures training links, for the settings of AML and those of a local method."""
    return Sizes(
        nodes=view.num_nodes,
        links=view.out_rows.col.numel(),
        degree=view.neighbours.col.numel() / view.num_nodes,
        layers=config.model.layers,
        hops=local.subgraphs.hops,
        hidden=config.model.hidden,
        local_hidden=local.model.hidden,
    )


def complexity_table(sizes: Sizes, runs: Sequence[RunResult]) -> str:
    """Returns formulas and counts; where a method learned only some of the links, its counts are scaled up."""
    by_method = {run.method: run for run in runs}
    aml = _counted(by_method["aml"], sizes) if "aml" in by_method else None
    rows = []
    for name, (formula, evaluate) in FORMULAS.items():
        value, base = evaluate(sizes), FORMULAS["aml"][1](sizes)
        row = [variant_named(name).label, formula, f"{value:.2e}", ratio_text(value / base)]
        run = by_method.get(name)
        if run is None:
            rows.append([*row, NOTHING, NOTHING, NOTHING, NOTHING])
            continue
        counted = _counted(run, sizes)
        share = f" (of {run.links:,} links, scaled)" if run.links < sizes.links else ""
        scale = sizes.links / run.links
        rows.append(
            [
                *row,
                f"{round(scale * run.per_epoch['gnn_node_encodings']):,}{share}",
                f"{round(scale * run.per_epoch['blocked_node_encodings']):,}",
                f"{round(scale * run.per_epoch['mlp_node_encodings']):,}",
                NOTHING if aml is None else ratio_text(counted / aml),
            ]
        )
    columns = [
        "method",
        "formula",
        "evaluated",
        "÷ AML",
        "counted: GNN",
        "blocked",
        "MLP",
        "GNN ÷ AML",
    ]
    facts = (
        f"N = {sizes.nodes:,}, |E| = {sizes.links:,} (directed), s = {sizes.degree:.1f}, L = {sizes.layers}, "
        f"r = {sizes.hidden} (local methods {sizes.local_hidden}), k = {sizes.hops}."
    )
    return f"{facts}\n\n{markdown_table(columns, rows)}"


def ratio_text(ratio: float) -> str:
    """Returns a ratio with three significant digits, also a small one."""
    return f"{ratio:,.1f}" if ratio >= 10 else f"{ratio:.3g}"


def _counted(run: RunResult, sizes: Sizes) -> float:
    return run.per_epoch["gnn_node_encodings"] * sizes.links / max(1, run.links)
