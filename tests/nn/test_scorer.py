"""The Hadamard MLP, and scores of pairs and rows from the representations of all nodes."""

import pytest
import torch
from tiny_models import randomise

from headtail.nn.embedding_scorer import EmbeddingScorer
from headtail.nn.scorer import HadamardScorer

N, DIM = 13, 6


def scorer_of(layers: int, dropout: float = 0.0) -> HadamardScorer:
    torch.manual_seed(0)
    scorer = HadamardScorer(DIM, layers, dropout)
    randomise(scorer)
    return scorer.eval()


def tables() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(N, DIM, generator=generator), torch.randn(N, DIM, generator=generator)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_logits_follow_the_formula(layers: int) -> None:
    scorer, (u, v) = scorer_of(layers), tables()
    pairs = torch.tensor([[0, 3, 3, 12], [1, 1, 3, 0]])
    z = u[pairs[0]] * v[pairs[1]]
    for linear, norm in zip(scorer.hidden, scorer.norms, strict=True):
        z = z @ linear.weight.T + linear.bias
        z = ((z - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias).clamp(min=0)
    wanted = (z * scorer.last.weight).sum(dim=1) + scorer.last.bias
    assert len(scorer.hidden) == layers - 1
    torch.testing.assert_close(scorer(u, v, pairs), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_rows_equal_pairs_in_evaluation(layers: int, dropout: float) -> None:
    scorer, (u, v) = scorer_of(layers, dropout), tables()
    pairs = torch.cartesian_prod(torch.arange(4), torch.arange(N)).T
    wanted = scorer(u[:4], v, pairs).view(4, N)
    torch.testing.assert_close(scorer.score_rows(u[:4], v), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layers", [1, 2])
def test_rows_against_no_tails(layers: int) -> None:
    u, v = tables()
    assert scorer_of(layers).score_rows(u, v[:0]).shape == (N, 0)


@pytest.mark.parametrize("layers", [1, 2])
def test_no_heads_have_no_rows(layers: int) -> None:
    u, v = tables()
    assert scorer_of(layers).score_rows(u[:0], v).shape == (0, N)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("directed", [True, False])
def test_undirected_scores_are_the_mean_of_both_orientations(directed: bool, layers: int) -> None:
    mlp, (u, v) = scorer_of(layers), tables()
    scorer = EmbeddingScorer(u, v, mlp, directed)
    heads, tails = torch.cartesian_prod(torch.arange(N), torch.arange(N)).T
    forward = mlp(u, v, torch.stack([heads, tails])).detach()
    backward = mlp(u, v, torch.stack([tails, heads])).detach()
    assert not torch.allclose(forward, backward)
    wanted = forward if directed else (forward + backward) / 2
    found = scorer.score(heads, tails)
    torch.testing.assert_close(found, wanted)
    assert (scorer.num_nodes, scorer.device) == (N, u.device)
    assert not found.requires_grad


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(("first", "last"), [(0, N), (4, 9), (N - 1, N)])
def test_rows_of_a_scorer_equal_its_pairs(directed: bool, layers: int, first: int, last: int) -> None:
    scorer = EmbeddingScorer(*tables(), scorer_of(layers), directed)
    heads = torch.tensor([5, 0, 5, 12])
    pairs = torch.cartesian_prod(heads, torch.arange(first, last)).T
    wanted = scorer.score(pairs[0], pairs[1]).view(4, last - first)
    torch.testing.assert_close(scorer.score_rows(heads, first, last), wanted, rtol=1e-4, atol=1e-5)


def test_scores_on_every_device(device: torch.device) -> None:
    u, v = tables()
    heads, tails = torch.cartesian_prod(torch.arange(N), torch.arange(N)).T
    wanted = EmbeddingScorer(u, v, scorer_of(3), False).score(heads, tails)
    there = EmbeddingScorer(u.to(device), v.to(device), scorer_of(3).to(device), False)
    found = there.score(heads.to(device), tails.to(device))
    assert found.device.type == device.type
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-5)
