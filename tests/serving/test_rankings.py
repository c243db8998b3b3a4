"""Rankings of candidates by brute force: trees that look twice, networks, and blends of two."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from plans import learned_trees
from sights import sight_of

from headtail.errors import RunError
from headtail.run_files import ANSWERS_FILE
from headtail.serving import network as module
from headtail.serving import rankings
from headtail.serving.columns import FARTHEST, standing
from headtail.serving.network import Network, as_logarithm, learn_network
from headtail.serving.plan import AnswerPlan, Choice, Trees
from headtail.serving.rankings import ByNetwork, ByTrees, blended
from headtail.serving.trees_text import plain_trees
from tiny_runs import small_graph, trained

INF = float("inf")
NAMES = ("paths", "common", "candidates")


def some_columns(seed: int = 0, heads: int = 6, wide: int = 40) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Returns columns [B, T] and which candidates there are; the last head has none."""
    generator = torch.Generator().manual_seed(seed)
    there = torch.arange(wide) < torch.tensor([wide, 30, 20, 3, 1, 0])[:heads, None]
    return {name: torch.rand(heads, wide, generator=generator) for name in NAMES}, there


def by_trees(text: str) -> ByTrees:
    return ByTrees(NAMES, sight_of(True), text)


# ---- trees ----


@pytest.mark.parametrize("most", [5, 12, 100])
def test_trees_look_at_all_and_then_at_the_best(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rankings, "LOOKS", 3)
    monkeypatch.setattr(rankings, "NARROWED", most)
    columns, there = some_columns()
    text = learned_trees(3, 9)
    found = by_trees(text).rank_columns(columns, there)
    monkeypatch.setattr(rankings, "LOOKS", 9)
    whole = by_trees(text).rank_columns(columns, there)
    few = by_trees(learned_trees(3, 9, keep=3)).rank_columns(columns, there)
    for row, (mine, all_say, look) in enumerate(zip(found, whole, few, strict=True)):
        candidates = there[row].nonzero().squeeze(1).tolist()
        best = sorted(candidates, key=lambda place: (-look[place], place))[:most]
        assert set((mine > -INF).nonzero().squeeze(1).tolist()) == set(best)
        torch.testing.assert_close(mine[best], all_say[best])


@pytest.mark.parametrize("most", [2, 20])
def test_threads_that_look_at_once_say_what_one_says(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rankings, "LOOKS", 30)
    monkeypatch.setattr(rankings, "NARROWED", most)
    tables = [some_columns(seed, heads=6, wide=40) for seed in range(60)]
    ranking = by_trees(learned_trees(3, 120))
    wanted = [ranking.rank_columns(*table) for table in tables]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda table: ranking.rank_columns(*table), tables * 4))
    assert all(torch.equal(mine, its) for mine, its in zip(found, wanted * 4, strict=True))


def test_so_many_answers_are_looked_at_as_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rankings, "LOOKS", 3)
    monkeypatch.setattr(rankings, "NARROWED", 2)
    columns, there = some_columns()
    found = by_trees(learned_trees(3, 9)).rank_columns(columns, there, 25)
    assert (found > -INF).sum(dim=1).tolist() == [25, 25, 20, 3, 1, 0]


def test_a_column_that_is_missing_is_named() -> None:
    columns, there = some_columns()
    del columns["common"]
    for ranking in (by_trees(learned_trees(3, 4)), ByNetwork(NAMES, sight_of(True), a_network())):
        with pytest.raises(RunError, match=r"reads 'common', which this graph does not have; train again\.$"):
            ranking.rank_columns(columns, there)


@pytest.mark.slow
def test_the_command_imports_trees_without_what_they_look_for(tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained(small_graph(dated=True), epochs=1, answers="chosen").save(run)
    plan = AnswerPlan.from_json((run / ANSWERS_FILE).read_bytes(), "the plan")
    trees = {"a": Trees(["paths", "common"], plain_trees(learned_trees(2), 2))}
    plan = replace(plan, trees=trees, choice=Choice("a"), shortlist="a")
    (run / ANSWERS_FILE).write_text(plan.as_json(), encoding="utf-8")
    code = (
        "import sys; from headtail.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(code or 10 * ('lightgbm' not in sys.modules) + 20 * ('sklearn' in sys.modules))"
    )
    command = [sys.executable, "-c", code, "recommend", str(run), "--heads", "p00", "-k", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "ranked by a" in done.stderr


# ---- networks ----


def a_network(seed: int = 0, columns: int = 3, **changes: Any) -> Network:
    random = np.random.default_rng(seed)
    sizes = [2 * columns, 5, 4, 1]
    weights = [random.normal(size=a * b).tolist() for a, b in pairwise(sizes)]
    parts = {
        "columns": list(NAMES[:columns]),
        "middle": random.normal(size=columns).tolist(),
        "deviation": random.uniform(0.5, 2, size=columns).tolist(),
        "weights": weights,
        "biases": [random.normal(size=b).tolist() for b in sizes[1:]],
    }
    return Network(**{**parts, **changes})


def test_a_network_says_what_its_weights_say() -> None:
    columns, there = some_columns()
    network = a_network()
    network.check()
    found = ByNetwork(NAMES, sight_of(True), network).rank_columns(columns, there)
    for row in range(len(there)):
        places = there[row].nonzero().squeeze(1).tolist()
        assert (found[row] > -INF).nonzero().squeeze(1).tolist() == places
        if not places:
            continue
        logs = np.stack([np.log1p(100 * columns[name][row, places].double().numpy()) for name in NAMES], axis=1)
        stands = (logs - logs.mean(axis=0)) / np.sqrt(logs.var(axis=0) + 1e-3)
        hidden = np.concatenate([(logs - network.middle) / network.deviation, stands], axis=1).clip(-FARTHEST, FARTHEST)
        for number, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
            hidden = hidden @ np.reshape(weight, (len(bias), -1)).T + bias
            hidden = hidden / (1 + np.exp(-hidden)) if number < 2 else hidden
        np.testing.assert_allclose(found[row, places].numpy(), hidden[:, 0], rtol=1e-4, atol=1e-5)


def test_a_head_is_ranked_the_same_whoever_is_beside_it() -> None:
    columns, there = some_columns()
    ranking = ByNetwork(NAMES, sight_of(True), a_network())
    whole = ranking.rank_columns(columns, there)
    for row in range(len(there)):
        alone = ranking.rank_columns(
            {name: each[row : row + 1] for name, each in columns.items()}, there[row : row + 1]
        )
        torch.testing.assert_close(alone[0], whole[row])


def test_where_a_value_stands() -> None:
    values = torch.tensor([[1.0, 2.0, 3.0, 99.0], [5.0, 5.0, 5.0, 5.0], [0.0, 0.0, 0.0, 1e9], [7.0, 1.0, 1.0, 1.0]])
    there = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1], [1, 0, 0, 0]]).bool()
    found = standing(values, there, least=0.0)
    assert found[0, :3].tolist() == pytest.approx([-(1.5**0.5), 0, 1.5**0.5])
    assert found[2].tolist() == pytest.approx([-(3**-0.5)] * 3 + [3**0.5])
    assert standing(values, there)[1].tolist() == [0, 0, 0, 0]
    assert standing(values, there)[3, 0] == 0
    assert standing(values, there).isfinite().all()


def lists_to_learn(seed: int, heads: int = 200, wide: int = 12) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Right is who is high in just one of the first two columns, which neither tells by itself, nor both added up."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(2, wide, (heads,), generator=generator)
    table = torch.rand(int(sizes.sum()), 3, generator=generator)
    right = (table[:, 0] > 0.5) != (table[:, 1] > 0.5)
    right |= torch.cat([torch.arange(size) == 0 for size in sizes.tolist()])  # every head has one
    return table, right, sizes


def stands_of(table: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    parts = as_logarithm(table).split(sizes.tolist())
    return torch.cat([standing(part.T, torch.ones_like(part.T, dtype=torch.bool)).T for part in parts])


def learned(table: torch.Tensor, right: torch.Tensor, sizes: torch.Tensor, seed: int = 0) -> Network:
    return learn_network(list(NAMES), table, stands_of(table, sizes), right, sizes, seed)


@pytest.mark.slow
def test_a_network_learns_what_no_column_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EPOCHS", 40)
    table, right, sizes = lists_to_learn(0, heads=800)
    network = learned(table, right, sizes)
    network.check()
    table, _, sizes = lists_to_learn(1)
    right = (table[:, 0] > 0.5) != (table[:, 1] > 0.5)
    scores = network.score(as_logarithm(table), stands_of(table, sizes))
    above = (scores[right][:, None] > scores[~right][None]).float().mean()
    assert above > 0.9
    for column in table.T:
        assert abs(float((column[right][:, None] > column[~right][None]).float().mean()) - 0.5) < 0.1


def test_one_seed_one_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EPOCHS", 2)
    parts = lists_to_learn(0, heads=70)
    state = torch.get_rng_state()
    found = learned(*parts)
    assert learned(*parts) == found
    assert learned(*parts, seed=1) != found
    assert torch.equal(torch.get_rng_state(), state)


def test_one_head_of_one_candidate_is_enough() -> None:
    network = learned(torch.rand(1, 3), torch.tensor([True]), torch.tensor([1]))
    assert network.score(torch.rand(4, 3), torch.rand(4, 3)).isfinite().all()


# ---- blends ----


def among_best(row: list[float], most: int) -> list[float]:
    """Returns where the best scores of a row stand among each other, others with the last of them."""
    order = sorted((place for place in range(len(row)) if row[place] > -INF), key=lambda place: (-row[place], place))
    best = np.array([row[place] for place in order[:most]])
    if not len(best):
        return [0.0] * len(row)
    stands = (best - best.mean()) / max(best.std(), 1e-6)
    found = [float(stands[-1])] * len(row)
    for place, value in zip(order[:most], stands.tolist(), strict=True):
        found[place] = value
    return found


@pytest.mark.parametrize("most", [3, 100])
@pytest.mark.parametrize("share", [0.25, 0.5])
def test_blends_by_definition(share: float, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rankings, "NARROWED", most)
    generator = torch.Generator().manual_seed(0)
    one, other = torch.randn(2, 7, 20, generator=generator)
    one[torch.rand(7, 20, generator=generator) < 0.3] = -INF
    other[torch.rand(7, 20, generator=generator) < 0.3] = -INF
    one[1], other[2] = -INF, -INF
    one[3], other[3] = -INF, -INF
    other[4] = 2.5
    found = blended(one, other, share)
    for row in range(7):
        mine, its = among_best(one[row].tolist(), most), among_best(other[row].tolist(), most)
        wanted = [share * a + (1 - share) * b for a, b in zip(mine, its, strict=True)]
        neither = (one[row] == -INF) & (other[row] == -INF)
        assert (found[row] == -INF).equal(neither)
        np.testing.assert_allclose(found[row, ~neither].numpy(), np.array(wanted)[~neither.numpy()], atol=1e-4)


def test_a_blend_does_not_ask_how_large_scores_are() -> None:
    one, other = torch.randn(2, 3, 9, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        blended(one, other, 0.5), blended(one * 1e4 + 7, other * 1e-3, 0.5), rtol=1e-3, atol=1e-3
    )


def test_the_model_is_plain_numbers() -> None:
    network = a_network()
    logs = torch.rand(5, 3)
    first, second, third = (
        (torch.tensor(weight).view(len(bias), -1), torch.tensor(bias))
        for weight, bias in zip(network.weights, network.biases, strict=True)
    )
    read = torch.cat([(logs - torch.tensor(network.middle)) / torch.tensor(network.deviation), logs], dim=1)
    wanted = F.linear(F.silu(F.linear(F.silu(F.linear(read, *first)), *second)), *third).squeeze(1)
    torch.testing.assert_close(network.score(logs, logs), wanted)
