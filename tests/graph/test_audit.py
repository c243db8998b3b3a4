"""The leak audit: planted leaks are found, refused, or dropped; clean splits pass (METHOD 1)."""

import pytest
import torch
from hypothesis import assume, given

from headtail.config import make_config
from headtail.errors import DataError
from headtail.graph.audit import LeakAudit, audit, audit_test_view, clean_split
from headtail.graph.csr import CSR
from headtail.graph.graph import HeldOut
from headtail.graph.message import add_self_loops
from headtail.graph.split import Split
from headtail.graph.task import LinkTask, make_task
from headtail.graph.view import GraphView
from random_graphs import as_links, as_pairs, graph_of, random_links, views

NODES = 8
TRAIN = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
VALID, TEST = [(0, 2), (1, 3)], [(0, 3), (2, 5)]


def task_of(train: list[tuple[int, int]], directed: bool, **settings: object) -> LinkTask:
    valid = settings.pop("valid", VALID)
    assert isinstance(valid, list)
    graph = graph_of(as_links(train), NODES, directed, valid=as_links(valid), test=as_links(TEST))
    return make_task(graph, make_config(settings={"structure": 2, "eval_negatives": 1, **settings}))


def audit_of(split: Split, labels: CSR, messages: CSR, directed: bool) -> LeakAudit:
    return audit(split, labels, messages, NODES, directed, dropped=0)


@pytest.mark.parametrize("directed", [True, False])
def test_a_clean_given_split_passes_and_says_so(directed: bool) -> None:
    task = task_of(TRAIN, directed)
    assert (task.leaks.in_labels, task.leaks.in_messages, task.leaks.dropped) == (0, 0, 0)
    assert "none of 4 held-out links" in str(task.leaks)


@pytest.mark.parametrize("leak", [VALID[0], TEST[1]], ids=["valid", "test"])
@pytest.mark.parametrize(("directed", "flip"), [(True, False), (False, False), (False, True)])
def test_a_planted_leak_is_refused_with_its_count(leak: tuple[int, int], directed: bool, flip: bool) -> None:
    planted = leak[::-1] if flip else leak
    with pytest.raises(DataError, match=r"leaks: 1 links .*--drop-leaks"):
        task_of([*TRAIN, planted], directed)


@pytest.mark.parametrize(("directed", "flip"), [(True, False), (False, False), (False, True)])
def test_drop_leaks_removes_the_overlap_and_nothing_else(directed: bool, flip: bool) -> None:
    planted = [link[::-1] if flip else link for link in (*VALID, *TEST)]
    task = task_of(TRAIN + planted, directed, drop_leaks=True)
    assert sorted(as_pairs(task.split.train)) == TRAIN
    assert task.leaks.dropped == 4
    assert "4 overlapping training links were dropped" in str(task.leaks)
    held_out = set(VALID + TEST)
    a = add_self_loops(task.train_view)
    seen = set(zip(a.row.tolist(), a.col.tolist(), strict=True))
    assert not seen & (held_out | {link[::-1] for link in held_out})


def test_directed_reverse_links_are_counted_not_refused() -> None:
    task = task_of([*TRAIN, VALID[0][::-1], TEST[0][::-1]], directed=True)
    assert task.leaks.reversed_links == 2
    assert task.leaks.dropped == 0
    assert "2 training links run the other way" in str(task.leaks)


def test_drop_reversed_removes_them() -> None:
    task = task_of([*TRAIN, VALID[0][::-1], TEST[0][::-1]], directed=True, drop_reversed=True)
    assert sorted(as_pairs(task.split.train)) == TRAIN
    assert (task.leaks.reversed_links, task.leaks.dropped) == (0, 2)


def test_drop_reversed_alone_does_not_drop_leaks() -> None:
    with pytest.raises(DataError, match="leaks: 1 links"):
        task_of([*TRAIN, VALID[0]], directed=True, drop_reversed=True)


@pytest.mark.parametrize(("directed", "flip"), [(True, False), (False, False), (False, True)])
def test_validation_links_in_the_test_graph_may_not_be_test_as_links(directed: bool, flip: bool) -> None:
    both = TEST[0][::-1] if flip else TEST[0]
    valid = [*VALID, both]
    assert task_of(TRAIN, directed, valid=valid).split.valid.positives.shape[1] == 3
    with pytest.raises(DataError, match="leaks: 1 links"):
        task_of(TRAIN, directed, valid=valid, test_graph="train+valid")
    task = task_of(TRAIN, directed, valid=valid, test_graph="train+valid", drop_leaks=True)
    assert as_pairs(task.split.valid.positives) == VALID
    assert task.leaks.dropped == 1


def test_the_test_graph_holds_validation_links_only_where_asked() -> None:
    assert as_pairs(task_of(TRAIN, True).test_view.links) == TRAIN
    wider = task_of(TRAIN, True, test_graph="train+valid")
    assert as_pairs(wider.test_view.links) == TRAIN + VALID
    assert as_pairs(wider.train_view.links) == TRAIN


def test_negatives_of_a_dropped_validation_link_go_with_it() -> None:
    tails = torch.tensor([[4, 5], [6, 7], [5, 6]])
    valid = HeldOut(as_links([*VALID, TEST[0]]), tails)
    split = Split(as_links(TRAIN), None, valid, HeldOut(as_links(TEST)), "given")
    cleaned, dropped = clean_split(split, NODES, True, True, False, test_sees_valid=True)
    assert dropped == 1
    assert cleaned.valid.negatives is not None
    assert cleaned.valid.negatives.tolist() == [[4, 5], [6, 7]]


def test_negative_pairs_survive_a_dropped_validation_link() -> None:
    pairs = torch.tensor([[4, 5, 6], [6, 7, 7]])
    split = Split(
        as_links(TRAIN), None, HeldOut(as_links([VALID[0], TEST[0]]), pairs), HeldOut(as_links(TEST)), "given"
    )
    cleaned, _ = clean_split(split, NODES, True, True, False, test_sees_valid=True, metric="hits@50")
    assert cleaned.valid.negatives is not None
    assert cleaned.valid.negatives.tolist() == pairs.tolist()


def test_a_validation_part_that_is_dropped_whole_is_refused() -> None:
    with pytest.raises(DataError):
        task_of(TRAIN, True, valid=[TEST[0]], test_graph="train+valid", drop_leaks=True)


def test_a_training_part_that_is_dropped_whole_is_refused() -> None:
    with pytest.raises(DataError, match="nothing is left to train on"):
        task_of([VALID[0]], True, drop_leaks=True)


@pytest.mark.parametrize("directed", [True, False])
def test_a_held_out_self_loop_is_named_or_dropped(directed: bool) -> None:
    try:
        task = task_of(TRAIN, directed, valid=[*VALID, (6, 6)], drop_leaks=True)
    except DataError as error:
        assert "self" in str(error)  # noqa: PT017
    else:
        assert (6, 6) not in as_pairs(task.split.valid.positives)


def test_dropped_reverse_links_are_no_negatives() -> None:
    reverse = TEST[0][::-1]
    dense_head = [(3, tail) for tail in range(NODES) if tail not in (0, 3, 6)]
    graph = graph_of(as_links([*TRAIN, *dense_head, reverse]), NODES, valid=as_links([(3, 6)]), test=as_links(TEST))
    settings = {"structure": 2, "eval_negatives": 1, "drop_reversed": True}
    # All tails of node 3 are links, so there is nothing to rank its held-out link against.
    with pytest.raises(DataError, match="linked to every other node"):
        make_task(graph, make_config(settings=settings))


def clean() -> Split:
    return Split(as_links(TRAIN), None, HeldOut(as_links(VALID)), HeldOut(as_links(TEST)), "given")


@pytest.mark.parametrize("directed", [True, False])
def test_the_audit_reads_labels_and_message_graph_themselves(directed: bool) -> None:
    view = GraphView(NODES, directed, as_links(TRAIN))
    leaky = view.with_links(as_links([TEST[0]]))
    with pytest.raises(DataError, match=r"1 held-out links are training labels and 0 are in the message graph"):
        audit_of(clean(), leaky.out_rows, add_self_loops(view), directed)
    with pytest.raises(DataError, match=r"0 held-out links are training labels and 1 are in the message graph"):
        audit_of(clean(), view.out_rows, add_self_loops(leaky), directed)
    assert audit_of(clean(), view.out_rows, add_self_loops(view), directed).held_out == 4


def test_a_one_sided_leak_is_found_in_undirected_graphs() -> None:
    view = GraphView(NODES, False, as_links(TRAIN))
    one_way = CSR.from_links(torch.cat([as_links(TRAIN), as_links([TEST[0][::-1]])], dim=1), NODES)
    with pytest.raises(DataError, match="1 held-out links are training labels"):
        audit_of(clean(), one_way, add_self_loops(view), directed=False)
    with pytest.raises(DataError, match="1 are in the message graph"):
        audit_of(clean(), view.out_rows, one_way, directed=False)


@pytest.mark.parametrize(("directed", "flip"), [(True, False), (False, True)])
def test_the_graph_of_the_test_is_checked_too(directed: bool, flip: bool) -> None:
    leak = TEST[0][::-1] if flip else TEST[0]
    audit_test_view(clean(), GraphView(NODES, directed, as_links(TRAIN + VALID)))
    with pytest.raises(DataError, match="1 test links"):
        audit_test_view(clean(), GraphView(NODES, directed, as_links([*TRAIN, leak])))


@given(views())
def test_splits_we_make_are_clean(view: GraphView) -> None:
    assume(view.links.shape[1] >= 3)
    graph = graph_of(view.links, view.num_nodes, view.directed)
    settings = {"metric": "hits@10", "eval_negatives": 1, "structure": 2, "test_graph": "train+valid"}
    try:
        task = make_task(graph, make_config(settings=settings))
    except DataError as error:
        assert "every pair" in str(error)  # noqa: PT017
        return
    assert (task.leaks.in_labels, task.leaks.in_messages, task.leaks.dropped) == (0, 0, 0)
    train, every = set(as_pairs(task.split.train)), set(as_pairs(graph.links))
    held_out = set(as_pairs(task.split.valid.positives)) | set(as_pairs(task.split.test.positives))
    assert train | held_out == every
    assert not train & held_out
    reverse = sum((tail, head) in train for head, tail in held_out) if view.directed else 0
    assert task.leaks.reversed_links == reverse


def test_known_links_are_all_of_the_data() -> None:
    task = make_task(graph_of(random_links(12, 30, False), 12, False), make_config())
    every = set(as_pairs(random_links(12, 30, False)))
    known = set(zip(task.known.row.tolist(), task.known.col.tolist(), strict=True))
    assert known == every | {(tail, head) for head, tail in every}
