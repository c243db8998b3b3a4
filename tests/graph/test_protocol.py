"""Protocols: clean refuses leaks, ogb keeps and counts them, val-as-train trains on validation links too (METHOD 6)."""

from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headtail.config import make_config
from headtail.errors import ConfigError, DataError, RunError
from headtail.graph.audit import audit, audit_test_view
from headtail.graph.graph import HeldOut
from headtail.graph.message import add_self_loops
from headtail.graph.split import Split, train_on_validation
from headtail.graph.store import load_task, save_task
from headtail.graph.task import LinkTask, make_task
from headtail.graph.view import GraphView
from random_graphs import Pairs, as_links, as_pairs, graph_of

NODES = 9
TRAIN = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
VALID, TEST = [(0, 2), (1, 3)], [(0, 3), (2, 5)]
LEAKS = [VALID[0], TEST[0], TEST[1]]


def task_of(train: Pairs, directed: bool, protocol: str, valid: Pairs = VALID, **settings: object) -> LinkTask:
    times = list(range(2000, 2000 + len(train)))
    graph = graph_of(train, NODES, directed, times=times, valid=valid, test=TEST)
    options = {"structure": 2, "eval_negatives": 1, "protocol": protocol, **settings}
    return make_task(graph, make_config(settings=options))


def unordered(pairs: Pairs, directed: bool) -> set[tuple[int, int]]:
    return set(pairs) if directed else {(min(pair), max(pair)) for pair in pairs}


def flipped(pairs: Pairs, flip: bool) -> Pairs:
    return [pair[::-1] for pair in pairs] if flip else pairs


ORIENTATIONS = pytest.mark.parametrize(("directed", "flip"), [(True, False), (False, False), (False, True)])


@ORIENTATIONS
def test_ogb_keeps_what_clean_refuses_and_counts_it(directed: bool, flip: bool) -> None:
    train = TRAIN + flipped(LEAKS, flip)
    with pytest.raises(DataError, match="leaks: 3 links"):
        task_of(train, directed, "clean")
    task = task_of(train, directed, "ogb")
    assert task.protocol == "ogb"
    assert unordered(as_pairs(task.split.train), directed) == unordered(train, directed)
    assert (task.leaks.kept, task.leaks.in_labels, task.leaks.in_messages) == (3, 3, 3)
    assert (task.leaks.in_test_graph, task.leaks.dropped, task.leaks.held_out) == (2, 0, 4)
    text = str(task.leaks)
    assert "3 training links are also held out; protocol ogb keeps them" in text
    assert "the graph that the test is scored with holds 2 test links" in text
    assert "passed" not in text


@pytest.mark.parametrize("directed", [True, False])
def test_ogb_says_where_a_published_split_is_clean(directed: bool) -> None:
    task = task_of(TRAIN, directed, "ogb")
    assert str(task.leaks).startswith("leak audit passed (protocol ogb): none of 4 held-out links")
    assert torch.equal(task.split.train, task_of(TRAIN, directed, "clean").split.train)
    assert task.split.train_times is not None


def test_ogb_keeps_a_validation_link_that_is_a_test_link() -> None:
    valid = [*VALID, TEST[0]]
    task = task_of(TRAIN, False, "ogb", valid, test_graph="train+valid")
    assert as_pairs(task.split.valid.positives) == valid
    assert (task.leaks.kept, task.leaks.in_test_graph) == (0, 1)
    assert "holds 1 test links" in str(task.leaks)


@ORIENTATIONS
def test_validation_links_join_labels_and_both_message_graphs(directed: bool, flip: bool) -> None:
    valid = flipped(VALID, flip)
    task = task_of(TRAIN, directed, "val-as-train", valid)
    assert unordered(as_pairs(task.split.train), directed) == unordered(TRAIN + VALID, directed)
    assert task.split.train.shape[1] == len(TRAIN + VALID)
    assert task.test_view is task.train_view
    a = add_self_loops(task.test_view)
    assert a.contains(*as_links(VALID)).all()
    assert not a.contains(*as_links(TEST)).any()
    assert as_pairs(task.split.valid.positives) == valid  # still there to be evaluated
    assert (task.leaks.held_out, task.leaks.in_labels, task.leaks.in_messages, task.leaks.kept) == (2, 0, 0, 0)
    assert str(task.leaks).startswith("protocol val-as-train trains on the validation links; none of 2 test links is")
    wider = task_of(TRAIN, directed, "val-as-train", valid, test_graph="train+valid")
    assert torch.equal(wider.test_view.links, task.test_view.links)


@ORIENTATIONS
def test_val_as_train_counts_links_once_and_keeps_leaks(directed: bool, flip: bool) -> None:
    train, valid = TRAIN + flipped([VALID[0], TEST[0]], flip), [*VALID, VALID[1], TEST[1]]
    task = task_of(train, directed, "val-as-train", valid)
    assert unordered(as_pairs(task.split.train), directed) == unordered(TRAIN + VALID + TEST, directed)
    assert task.split.train.shape[1] == len(TRAIN + VALID + TEST)
    assert (task.leaks.kept, task.leaks.in_labels, task.leaks.in_test_graph) == (2, 2, 2)
    assert "2 training links are also test links and are kept" in str(task.leaks)
    assert task.split.train_times is None


def test_validation_links_come_after_the_training_links() -> None:
    split = Split(as_links(TRAIN), None, HeldOut(as_links([(1, 0), *VALID])), HeldOut(as_links(TEST)), "given")
    assert as_pairs(train_on_validation(split, NODES, False).train) == TRAIN + VALID
    assert as_pairs(train_on_validation(split, NODES, True).train) == [*TRAIN, (1, 0), *VALID]


@pytest.mark.parametrize("directed", [True, False])
def test_a_split_of_our_own_may_train_on_its_validation_links(directed: bool) -> None:
    graph = graph_of(TRAIN + VALID + TEST, NODES, directed)
    settings = {"structure": 2, "eval_negatives": 1, "valid_share": 0.2, "test_share": 0.2}
    clean, more = (
        make_task(graph, make_config(settings={**settings, "protocol": p})) for p in ("clean", "val-as-train")
    )
    assert torch.equal(clean.split.test.positives, more.split.test.positives)
    expected = set(as_pairs(clean.split.train)) | set(as_pairs(clean.split.valid.positives))
    assert set(as_pairs(more.split.train)) == expected


def test_reversed_links_are_counted_under_every_protocol() -> None:
    train = [*TRAIN, VALID[0][::-1], TEST[0][::-1]]
    assert task_of(train, True, "ogb").leaks.reversed_links == 2
    task = task_of(train, True, "val-as-train")
    assert task.leaks.reversed_links == 1  # validation links are none that is held out
    assert "1 training links run the other way of one" in str(task.leaks)
    assert "drop_reversed" not in str(task.leaks)


@pytest.mark.parametrize("protocol", ["ogb", "val-as-train"])
@pytest.mark.parametrize("setting", ["drop_leaks", "drop_reversed"])
def test_dropping_contradicts_a_split_as_published(protocol: str, setting: str) -> None:
    with pytest.raises(ConfigError, match=f"{setting} contradicts protocol {protocol}"):
        task_of(TRAIN, True, protocol, **{setting: True})


# ---- the audit still proves what the protocol promises ----


def split_of(train: Pairs, valid: Pairs = VALID) -> Split:
    return Split(as_links(train), None, HeldOut(as_links(valid)), HeldOut(as_links(TEST)), "given")


@pytest.mark.parametrize("protocol", ["ogb", "val-as-train"])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("where", ["labels", "messages"])
def test_a_leak_that_was_not_published_is_found(protocol: str, directed: bool, where: str) -> None:
    train = [*TRAIN, *VALID, TEST[0]]
    honest, leaky = (GraphView(NODES, directed, as_links(links)) for links in (train, [*train, TEST[1]]))
    labels, messages = honest.out_rows, add_self_loops(honest)
    assert audit(split_of(train), labels, messages, NODES, directed, 0, protocol).in_labels >= 1
    if where == "labels":
        labels = leaky.out_rows
    else:
        messages = add_self_loops(leaky)
    with pytest.raises(DataError, match="leak audit failed"):
        audit(split_of(train), labels, messages, NODES, directed, 0, protocol)


def test_a_validation_link_that_is_not_trained_on_is_found() -> None:
    view = GraphView(NODES, False, as_links([*TRAIN, VALID[0]]))
    with pytest.raises(DataError, match="not all validation links are training labels"):
        audit(split_of(TRAIN), view.out_rows, add_self_loops(view), NODES, False, 0, "val-as-train")


def test_the_test_view_is_counted_and_only_clean_refuses() -> None:
    view = GraphView(NODES, False, as_links([*TRAIN, TEST[0][::-1]]))
    assert audit_test_view(split_of(TRAIN), view, "ogb") == 1
    with pytest.raises(DataError, match="1 test links"):
        audit_test_view(split_of(TRAIN), view)


CELLS = [(a, b) for a in range(5) for b in range(5) if a != b]
SOME = st.lists(st.sampled_from(CELLS), min_size=1, max_size=6)


@given(SOME, SOME, SOME, st.booleans())
def test_every_protocol_against_sets(train: Pairs, valid: Pairs, test: Pairs, directed: bool) -> None:
    graph = graph_of(train, 12, directed, valid=valid, test=test)
    sets = [unordered(part, directed) for part in (train, valid, test)]
    overlap = {"ogb": sets[0] & (sets[1] | sets[2]), "val-as-train": (sets[0] | sets[1]) & sets[2]}
    seen = {"ogb": sets[0], "val-as-train": sets[0] | sets[1]}
    for protocol in ("ogb", "val-as-train"):
        task = make_task(graph, make_config(settings={"structure": 2, "eval_negatives": 1, "protocol": protocol}))
        assert unordered(as_pairs(task.split.train), directed) == seen[protocol]
        assert task.split.train.shape[1] == len(seen[protocol])
        assert task.leaks.kept == len(overlap[protocol])
        in_test_graph = [pair for pair in test if unordered([pair], directed) <= seen[protocol]]
        assert task.leaks.in_test_graph == len(in_test_graph)


# ---- on disk ----


@pytest.mark.parametrize("protocol", ["clean", "ogb", "val-as-train"])
@pytest.mark.parametrize("test_graph", ["train", "train+valid"])
def test_a_task_comes_back_with_its_protocol(tmp_path: Path, protocol: str, test_graph: str) -> None:
    train = TRAIN if protocol == "clean" else TRAIN + LEAKS
    task = task_of(train, True, protocol, test_graph=test_graph)
    save_task(task, tmp_path)
    back = load_task(tmp_path)
    assert back.protocol == protocol
    assert back.leaks == task.leaks
    assert str(back.leaks) == str(task.leaks)
    assert torch.equal(back.split.train, task.split.train)
    assert torch.equal(back.train_view.links, task.train_view.links)
    assert torch.equal(back.test_view.links, task.test_view.links)


def test_a_task_without_its_protocol_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {name: value for name, value in asdict(task_of(TRAIN, True, "clean").leaks).items() if name != "protocol"}
    monkeypatch.setattr("headtail.graph.store.asdict", lambda leaks: kept)
    save_task(task_of(TRAIN, True, "clean"), tmp_path)
    with pytest.raises(RunError, match=r"damaged \('protocol'\)"):
        load_task(tmp_path)
