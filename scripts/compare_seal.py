"""Trains SEAL or DE-GNN on a small connected piece of a graph and prints AUC and Hits@50, mean ± standard deviation.

    python scripts/compare_seal.py acl-collab.npz [--method seal] [--set-up example] [--seeds 3] [--epochs 50]

The npz is undirected and in the split layout of docs/reference.md; its training links and features are used. The piece
is cut without chance: nodes of at most --max-degree links, the largest component of these, its first --nodes nodes in
breadth-first order. One seed fixes the split (torch_geometric's RandomLinkSplit, 5 % validation, 10 % test) and the
training.

PyTorch Geometric's examples/seal_link_pred.py was compared on the same splits by replacing its two lines that load
Cora, and its RandomLinkSplit, by `piece` and `split_piece` of this script with the same seed; the rest of it was left
as it is, but for the number of epochs (the same as here), torch.manual_seed(seed) before its model is made, and
weights_only=False where newer versions of PyTorch refuse to read its files.

--set-up example trains ours with its settings: two hops, no cap, 32 subgraphs per step, learning rate 0.0001, and
labels alone (a column of zeros in place of features). --set-up own trains with this package's defaults for the method,
and with the features.
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from scipy import sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.transforms import RandomLinkSplit

from headtail.config import make_config
from headtail.contract import Scorer
from headtail.datasets.raw import RawGraph, RawSplit
from headtail.evaluation.evaluator import evaluate
from headtail.graph.graph import HeldOut, build_graph
from headtail.graph.task import make_task
from headtail.methods import make_method
from headtail.training.observer import Observer

EXAMPLE: dict[str, object] = {
    "hops": 2,
    "nodes_per_hop": "all",
    "batches": "edges",
    "links_per_batch": 16,
    "negatives": "uniform",
    "negatives_per_positive": 1,
    "hidden": 32,
    "layers": 3,
    "scorer_layers": 2,
    "dropout": 0.5,
    "learning_rate": 0.0001,
    "objective": "cross_entropy",
}


def piece(file: Path, nodes: int, max_degree: int) -> Data:
    """Returns a connected piece with features x [nodes, d] and both orientations of every link."""
    stored = np.load(file, allow_pickle=False)
    total, (heads, tails) = int(stored["num_nodes"]), stored["train"]
    graph = sp.csr_array((np.ones(heads.size), (heads, tails)), shape=(total, total))
    graph = sp.csr_array(graph + graph.T)
    members = np.flatnonzero(graph.sum(axis=1) <= max_degree)
    _, component = connected_components(graph[members][:, members], directed=False)
    members = members[component == np.bincount(component).argmax()]
    order, _ = breadth_first_order(graph[members][:, members], 0, directed=False)
    members = members[order[:nodes]]
    row, col = graph[members][:, members].nonzero()
    features = torch.from_numpy(stored["x"][members].astype(np.float32))
    return Data(x=features, edge_index=torch.from_numpy(np.stack([row, col]).astype(np.int64)), num_nodes=members.size)


def split_piece(data: Data, seed: int) -> tuple[Data, Data, Data]:
    """Returns training, validation and test data as PyG's example splits them."""
    seed_everything(seed)  # its negatives come from NumPy
    parts: tuple[Data, Data, Data] = RandomLinkSplit(num_val=0.05, num_test=0.1, is_undirected=True, split_labels=True)(
        data
    )
    return parts


def auc(scorer: Scorer, positives: Tensor, negatives: Tensor) -> float:
    scores = scorer.score_pairs(*torch.cat([positives, negatives], dim=1).to(scorer.device)).cpu()
    truth = torch.arange(scores.numel()) < positives.shape[1]
    return float(roc_auc_score(truth, scores))


def held_out(data: Data) -> tuple[np.ndarray, np.ndarray]:
    return data.pos_edge_label_index.numpy(), data.neg_edge_label_index.numpy()


def train(parts: tuple[Data, Data, Data], settings: dict[str, object], with_features: bool) -> dict[str, float]:
    """Trains one method and returns its test metrics at the best validation epoch, and its seconds."""
    training, valid, test = parts
    links = training.pos_edge_label_index
    features = training.x if with_features else torch.zeros(training.num_nodes, 1)
    (valid_links, valid_negatives), (test_links, test_negatives) = held_out(valid), held_out(test)
    split = RawSplit(valid_links, test_links, valid_negatives, test_negatives)
    raw = RawGraph(
        "a piece", training.num_nodes, links.numpy(), False, features=features.numpy(), split=split, metric="hits@50"
    )
    # Undirected links are supervised in both orientations; an epoch of the example sees each once.
    config = make_config(settings={"structure": 0, "links_per_epoch": links.shape[1], **settings})
    task = make_task(build_graph(raw), config)
    method = make_method(task, config)

    def validate(scorer: Scorer) -> dict[str, float]:
        return {"auc": auc(scorer, *pairs(task.split.valid))}

    start = time.perf_counter()
    progress = method.fit(validate, Observer())
    seconds = time.perf_counter() - start
    scorer = method.scorer(task.test_view)
    positives, negatives = pairs(task.split.test)
    return {
        "auc": auc(scorer, positives, negatives),
        "hits@50": evaluate(scorer, positives, negatives, "hits@50")["hits@50"],
        "epoch": progress.best_epoch,
        "seconds": seconds,
    }


def pairs(part: HeldOut) -> tuple[Tensor, Tensor]:
    assert part.negatives is not None
    return part.positives, part.negatives


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("npz", type=Path)
    parser.add_argument("--method", choices=["seal", "degnn"], default="seal")
    parser.add_argument("--set-up", choices=["example", "own"], default="example")
    parser.add_argument("--nodes", type=int, default=2500)
    parser.add_argument("--max-degree", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    data = piece(options.npz, options.nodes, options.max_degree)
    print(f"{data.num_nodes:,} nodes, {data.num_edges // 2:,} links")
    # RandomLinkSplit shows the validation links when the test links are scored.
    seen = {"test_graph": "train+valid"}
    shared = {"method": options.method, "epochs": options.epochs, "device": options.device, **seen}
    example = options.set_up == "example"
    runs = []
    for seed in range(options.seeds):
        settings = {**(EXAMPLE if example else {}), **shared, "seed": seed}
        runs.append(train(split_piece(data, seed), settings, with_features=not example))
        print(f"seed {seed}: " + ", ".join(f"{name} {value:.4g}" for name, value in runs[-1].items()), flush=True)
    for name in ("auc", "hits@50", "seconds"):
        values = [run[name] for run in runs]
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        print(f"{name}: {statistics.mean(values):.4f} ± {spread:.4f}")


if __name__ == "__main__":
    main()
