"""Held-out links ranked among all nodes: against brute force, RecBole's definitions, and the tool that defines them."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from list_oracle import links_oracle, recbole_oracle, tails_by_head
from metric_oracle import TableScorer
from torch import Tensor

from headtail.config import Config, make_config
from headtail.errors import ConfigError, DataError
from headtail.evaluation.all_nodes import ANSWERS, AllNodesTruth, evaluate_lists, sampled_heads
from headtail.graph.audit import LeakAudit
from headtail.graph.graph import HeldOut
from headtail.graph.load import load
from headtail.graph.split import Split
from headtail.graph.task import LinkTask, make_task
from headtail.serving.answers import Answers, best_tails
from random_graphs import as_links, graph_of, random_links
from tiny_runs import small_graph

FIGURES = ["recall@10", "recall@50", "mrr@50", "head_recall@20", "head_ndcg@20", "heads", "links"]


def task_of(nodes: int, directed: bool, train: Tensor, valid: Tensor, test: Tensor) -> LinkTask:
    """Returns a task without features; some of its held-out links may be training links, as under the protocol ogb."""
    graph = graph_of(train, nodes, directed)
    split = Split(train, None, HeldOut(valid), HeldOut(test), "given")
    view = split.training_view(nodes, directed)
    return LinkTask(graph, split, "mrr", LeakAudit(0, 0, 0, 0, 0), view, view, lambda: pytest.fail("not needed"))


@st.composite
def tasks(draw: st.DrawFn) -> LinkTask:
    """Any split of a small graph, held-out links repeated, in training and in each other included."""
    nodes, directed = draw(st.integers(3, 12)), draw(st.booleans())
    pair = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)).filter(lambda ends: ends[0] != ends[1])
    parts = [as_links(draw(st.lists(pair, min_size=1, max_size=most))) for most in (20, 10, 25)]
    return task_of(nodes, directed, *parts)


def oracle(table: Tensor, task: LinkTask, part: str, heads: list[int], most: int = ANSWERS) -> dict[str, float]:
    split, directed, scores = task.split, task.graph.directed, table.numpy().astype(np.float64)
    train, valid, test = (
        tails_by_head(links, directed) for links in (split.train, split.valid.positives, split.test.positives)
    )
    wanted, skipped = (valid, {}) if part == "valid" else (test, valid)
    seen = {head: train.get(head, set()) | skipped.get(head, set()) for head in heads}
    return links_oracle(scores, heads, train, skipped, wanted, most) | recbole_oracle(scores, heads, seen, wanted)


@given(tasks(), st.sampled_from(["valid", "test"]), st.integers(1, 12), st.sampled_from([2, 1000]), st.integers(0, 99))
def test_figures_are_those_of_brute_force(task: LinkTask, part: str, most: int, values: int, seed: int) -> None:
    n = task.graph.num_nodes
    table = torch.randint(values, (n, n), generator=torch.Generator().manual_seed(seed)).float()
    truth = AllNodesTruth.of(task, part, most, seed)
    tails = best_tails(Answers.exactly(TableScorer(table)), truth.heads, truth.answers, known=task.train_view.out_rows)
    found = truth.judge(tails)
    assert list(found) == FIGURES
    assert truth.heads.numel() <= most
    assert found == pytest.approx(oracle(table, task, part, truth.heads.tolist()), abs=1e-12)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("part", ["valid", "test"])
def test_links_beyond_the_answers_count_nothing(directed: bool, part: str) -> None:
    """Heads with more held-out links than 20, and more nodes than are asked for."""
    nodes = 260
    links = random_links(nodes, 9000, directed, seed=1)
    links = links[:, torch.randperm(9000, generator=torch.Generator().manual_seed(2))]
    task = task_of(nodes, directed, *links.split([1000, 4000, 4000], dim=1))
    table = torch.randint(50, (nodes, nodes), generator=torch.Generator().manual_seed(3)).float()
    table += 10 * torch.rand(nodes, nodes, generator=torch.Generator().manual_seed(4))
    truth = AllNodesTruth.of(task, part, 70)
    assert (truth.heads.numel(), truth.answers) == (70, ANSWERS)
    tails = best_tails(Answers.exactly(TableScorer(table)), truth.heads, truth.answers, known=task.train_view.out_rows)
    wanted = oracle(table, task, part, truth.heads.tolist())
    assert truth.judge(tails) == pytest.approx(wanted, abs=1e-12)
    assert 0 < wanted["recall@10"] < wanted["recall@50"] < 1
    assert truth.judge(tails[:, :40])["recall@50"] < wanted["recall@50"]


def test_by_hand() -> None:
    train, valid, test = as_links([(0, 1)]), as_links([(0, 2)]), as_links([(0, 3), (0, 4), (1, 0)])
    truth = AllNodesTruth.of(task_of(60, True, train, valid, test), "test")
    lists = {0: [2, 7, 4, 8, 3], 1: [5, -1, -1, -1, -1]}
    found = truth.judge(torch.tensor([lists[head] for head in truth.heads.tolist()]))
    # Link 0 → 4 has rank 2: 7 is above, 2 is a validation link. Link 0 → 3 has rank 3: 4 does not count.
    assert found["recall@10"] == found["recall@50"] == pytest.approx(2 / 3)
    assert found["mrr@50"] == pytest.approx((1 / 2 + 1 / 3) / 3)
    assert found["head_recall@20"] == pytest.approx((2 / 2 + 0) / 2)
    ndcg = (1 / np.log2(3) + 1 / np.log2(5)) / (1 / np.log2(2) + 1 / np.log2(3))
    assert found["head_ndcg@20"] == pytest.approx((ndcg + 0) / 2)
    assert (found["heads"], found["links"]) == (2, 3)


def test_validation_does_not_look_at_test_links() -> None:
    parts = (as_links([(0, 1), (2, 3)]), as_links([(0, 2), (3, 1)]))
    task = task_of(6, True, *parts, as_links([(4, 5)]))
    hidden = Split(task.split.train, None, task.split.valid, HeldOut(None), "given")  # type: ignore[arg-type]
    blind = LinkTask(task.graph, hidden, "mrr", task.leaks, task.train_view, task.test_view, task.feature_maker)
    one, other = (AllNodesTruth.of(each, "valid") for each in (task, blind))
    lists = torch.tensor([[4, 2, 1], [5, 1, 2]])
    assert one.judge(lists) == other.judge(lists)
    with pytest.raises(TypeError):
        AllNodesTruth.of(blind, "test")


def test_heads_are_drawn_by_numpy_without_replacement() -> None:
    links = random_links(50, 300, directed=True, seed=0)
    distinct = np.unique(links[0].numpy())
    for seed in (0, 1):
        wanted = np.random.default_rng(seed).choice(distinct, 20, replace=False)
        assert sampled_heads(links, 20, seed).tolist() == wanted.tolist()
    assert sampled_heads(links, 20).tolist() == sampled_heads(links, 20, 0).tolist()
    assert sorted(sampled_heads(links, 1000).tolist()) == distinct.tolist()


def test_nothing_is_measured_where_nothing_is_asked() -> None:
    def never(heads: Tensor, k: int) -> Tensor:
        raise AssertionError("asked for lists")

    task = task_of(6, True, as_links([(0, 1)]), as_links([(0, 2)]), as_links([(4, 5)]))
    assert evaluate_lists(task, "test", 0, never) == {}
    trained_on = make_task(small_graph(), make_config(settings={"protocol": "val-as-train"}))
    assert evaluate_lists(trained_on, "valid", 5, never) == {}


def test_a_small_graph_is_asked_for_all_it_has() -> None:
    asked = []

    def nothing(heads: Tensor, k: int) -> Tensor:
        asked.append((heads.tolist(), k))
        return torch.full((heads.numel(), k), -1)

    task = task_of(6, True, as_links([(0, 1)]), as_links([(0, 2)]), as_links([(4, 5)]))
    found = evaluate_lists(task, "test", 5, nothing)["all_nodes"]
    assert asked == [([4], 5)]
    assert list(found) == [*FIGURES, "seconds"]
    assert [found[name] for name in FIGURES] == [0, 0, 0, 0, 0, 1, 1]


def test_what_does_not_fit_is_refused() -> None:
    task = task_of(6, True, as_links([(0, 1)]), as_links([(0, 2)]), as_links([(4, 5)]))
    with pytest.raises(ConfigError, match="unknown part 'train'"):
        AllNodesTruth.of(task, "train")
    with pytest.raises(DataError, match=r"at least 1 .* not -3"):
        AllNodesTruth.of(task, "test", -3)
    for shape in ((2, 5), (5,)):
        with pytest.raises(DataError, match=r"the lists of 1 heads must be \[1, K\]"):
            AllNodesTruth.of(task, "test").judge(torch.zeros(shape).long())


# ---- the tool that defines the figures


def tool(shared_data: Path) -> ModuleType:
    path = shared_data.parent / "tools" / "rank_all_nodes.py"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    spec = importlib.util.spec_from_file_location("rank_all_nodes", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", ["cit-hepph", "acl-collab"])
def test_figures_are_those_of_the_tool(shared_data: Path, name: str) -> None:
    """Lists in which right answers, validation links and wrong ones are shuffled."""
    defined, file = tool(shared_data), shared_data / f"{name}.npz"
    arrays = np.load(file)
    directed = bool(arrays["directed"])
    valid, test = (defined.both(arrays[part], directed) for part in ("valid", "test"))
    unique = np.unique(test[0])
    heads = np.random.default_rng(0).choice(unique, min(1500, unique.size), replace=False)
    wanted, hidden = (defined.tails_of(links, heads) for links in (test, valid))
    random, lists = np.random.default_rng(1), {}
    for head in heads.tolist():
        likely = [*wanted[head], *hidden.get(head, ())]
        others = random.choice(int(arrays["num_nodes"]), 120, replace=False)
        pool = np.setdiff1d(np.concatenate([random.permutation(likely)[:30], others]), [head])
        lists[head] = random.permutation(pool)[:ANSWERS].tolist()
    truth = AllNodesTruth.of(make_task(load(file), Config()), "test", 1500)
    assert truth.heads.tolist() == heads.tolist()
    found = truth.judge(torch.tensor([lists[head] for head in truth.heads.tolist()]))
    shares = {name: value if name in ("heads", "links") else round(100 * value, 2) for name, value in found.items()}
    assert shares == defined.figures(lists, wanted, hidden)
