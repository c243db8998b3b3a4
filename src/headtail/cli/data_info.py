"""`headtail data info`: what a graph is, before anything is trained on it."""

from typing import TYPE_CHECKING, Any

from headtail.cli.data_split import split_facts
from headtail.cli.options import Data, Json, Options, check_source
from headtail.cli.output import print_json, print_table
from headtail.config import Config
from headtail.errors import DataError

if TYPE_CHECKING:
    from headtail.graph.graph import Graph


def data_info(data: Data, source: Options, as_json: Json = False) -> None:
    """Describe a graph: nodes, links, degrees, features, times, what was dropped, how it would be split.

    Example:
        headtail data info debian
        headtail data info links.csv --time-column year --json
    """
    check_source(data, source)

    from headtail import load

    graph = load(data, **source)
    facts = graph_facts(graph) | {"split": _split_facts(graph)}
    if as_json:
        print_json(facts)
    else:
        print_table(["", ""], _rows(facts))


def graph_facts(graph: "Graph") -> dict[str, Any]:
    """Returns what can be counted; degrees are over the links to train on where the data brings a split."""
    ends = [graph.links[end].bincount(minlength=graph.num_nodes) for end in (0, 1)]  # links are distinct
    degrees = {"links_from_a_node": ends[0], "links_to_a_node": ends[1]}
    if not graph.directed:
        degrees = {"links_of_a_node": ends[0] + ends[1]}
    return {
        "source": graph.source,
        "nodes": graph.num_nodes,
        "node_names": [str(name) for name in graph.names.array()[:3]],
        "links": graph.links.shape[1],
        "directed": graph.directed,
        **{name: _degrees(counts, graph) for name, counts in degrees.items()},
        "isolated_nodes": int((ends[0] + ends[1] == 0).sum()),
        "feature_columns": 0 if graph.features is None else graph.features.shape[1],
        "times": None if graph.times is None else [int(graph.times.min()), int(graph.times.max())],
        "dropped_self_loops": graph.cleaning.self_loops,
        "dropped_duplicates": graph.cleaning.duplicates,
        **({"node_table": graph.cleaning.columns} if graph.cleaning.columns else {}),
    }


def _degrees(degrees: Any, graph: "Graph") -> dict[str, object]:
    return {
        "mean": round(float(degrees.double().mean()), 3),
        "median": int(degrees.median()),
        "max": int(degrees.max()),
        "of_node": str(graph.names.array()[int(degrees.argmax())]),
    }


def _split_facts(graph: "Graph") -> dict[str, object]:
    """Returns the split that training makes by default, or why it cannot."""
    from headtail.graph.task import prove_split

    try:
        return split_facts(prove_split(graph, Config()))
    except DataError as error:
        return {"problem": str(error)}


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the facts as rows of a table for people."""
    rows = []
    for name, value in facts.items():
        if isinstance(value, dict):
            text = ", ".join(f"{key.replace('_', ' ')} {_text(part)}" for key, part in value.items())
        elif isinstance(value, list):
            text = " … ".join(map(str, value)) if name == "times" else ", ".join([*value, "…"])
        else:
            text = _text(value)
        rows.append((name.replace("_", " "), text))
    return rows


def _text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:,}" if isinstance(value, int | float) else str(value)
