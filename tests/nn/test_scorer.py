"""The Hadamard MLP, with and without evidence, and scores of pairs and rows from the representations of all nodes."""

import pytest
import torch
from tiny_models import randomise

from headtail.errors import ConfigError
from headtail.graph.evidence import PairEvidence
from headtail.graph.evidence_kinds import EVIDENCE
from headtail.graph.view import GraphView
from headtail.nn import scorer as module
from headtail.nn.embedding_scorer import EmbeddingScorer
from headtail.nn.evidence import EvidenceEncoder
from headtail.nn.scorer import HadamardScorer
from headtail.sampling.places import PairPlaces
from random_graphs import random_view

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
    torch.testing.assert_close(scorer(u, v, PairPlaces(pairs)), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_rows_equal_pairs_in_evaluation(layers: int, dropout: float) -> None:
    scorer, (u, v) = scorer_of(layers, dropout), tables()
    pairs = torch.cartesian_prod(torch.arange(4), torch.arange(N)).T
    wanted = scorer(u[:4], v, PairPlaces(pairs)).view(4, N)
    torch.testing.assert_close(scorer.score_rows(u[:4], v), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("shape", [(4, 7), (5, 1), (1, 3), (0, 3), (3, 0)])
def test_own_tails_of_heads_equal_pairs_in_evaluation(layers: int, dropout: float, shape: tuple[int, int]) -> None:
    scorer, (u, v) = scorer_of(layers, dropout), tables()
    generator = torch.Generator().manual_seed(6)
    heads = torch.randint(N, shape[:1], generator=generator)
    tails = torch.randint(N, shape, generator=generator)
    places = PairPlaces(torch.stack([heads.repeat_interleave(shape[1]), tails.flatten()]))
    before = u.clone(), v.clone()
    found = scorer.score_tails(u, v, heads, tails)
    torch.testing.assert_close(found, scorer(u, v, places).view(shape), rtol=1e-4, atol=1e-5)
    assert torch.equal(u, before[0])
    assert torch.equal(v, before[1])


@pytest.mark.parametrize("heads", [1, 3, 16, 1000])
def test_tiles_of_a_gpu_are_full_whatever_the_number_of_heads(heads: int) -> None:
    tails, rows = module.tile(torch.device("cuda"), 256, heads)
    assert rows <= heads
    assert 2**25 < rows * tails * 256 <= 2**26


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
    forward = mlp(u, v, PairPlaces(torch.stack([heads, tails]))).detach()
    backward = mlp(u, v, PairPlaces(torch.stack([tails, heads]))).detach()
    assert not torch.allclose(forward, backward)
    wanted = forward if directed else (forward + backward) / 2
    found = scorer.score_pairs(heads, tails)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(scorer.score_tails(torch.arange(N), tails.view(N, N)).flatten(), found)
    assert (scorer.num_nodes, scorer.device) == (N, u.device)
    assert not found.requires_grad


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(("first", "last"), [(0, N), (4, 9), (N - 1, N)])
def test_rows_of_a_scorer_equal_its_pairs(directed: bool, layers: int, first: int, last: int) -> None:
    scorer = EmbeddingScorer(*tables(), scorer_of(layers), directed)
    heads = torch.tensor([5, 0, 5, 12])
    pairs = torch.cartesian_prod(heads, torch.arange(first, last)).T
    wanted = scorer.score_pairs(pairs[0], pairs[1]).view(4, last - first)
    torch.testing.assert_close(scorer.score_rows(heads, first, last), wanted, rtol=1e-4, atol=1e-5)


def test_scores_on_every_device(device: torch.device) -> None:
    u, v = tables()
    heads, tails = torch.cartesian_prod(torch.arange(N), torch.arange(N)).T
    wanted = EmbeddingScorer(u, v, scorer_of(3), False).score_pairs(heads, tails)
    there = EmbeddingScorer(u.to(device), v.to(device), scorer_of(3).to(device), False)
    found = there.score_pairs(heads.to(device), tails.to(device))
    assert found.device.type == device.type
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-5)


# ---- with evidence ----

COLUMNS = 5


def reader_of(layers: int, dropout: float = 0.0, columns: int = COLUMNS) -> HadamardScorer:
    """Returns a randomised scorer that reads evidence."""
    torch.manual_seed(0)
    scorer = HadamardScorer(DIM, layers, dropout, columns)
    randomise(scorer)
    return scorer.eval()


def some_evidence(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, COLUMNS, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("layers", [2, 3])
def test_logits_with_evidence_follow_the_formula(layers: int) -> None:
    scorer, (u, v) = reader_of(layers), tables()
    pairs, evidence = torch.tensor([[0, 3, 3, 12], [1, 1, 3, 0]]), some_evidence(4)
    encoder = scorer.evidence
    assert encoder is not None
    with torch.no_grad():
        encoder.scale[2] = 0
        evidence[1, 0] = 1e4  # beyond what training saw: cut at six deviations
        x = ((evidence - encoder.mean) * encoder.scale).clamp(-6, 6)
        more = (x @ encoder.first.weight.T + encoder.first.bias).clamp(min=0)
        more = more @ encoder.second.weight.T + encoder.second.bias
        z = u[pairs[0]] * v[pairs[1]]
        for layer, (linear, norm) in enumerate(zip(scorer.hidden, scorer.norms, strict=True)):
            z = z @ linear.weight.T + linear.bias + (more if layer == 0 else 0)
            z = ((z - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias).clamp(min=0)
        wanted = (z * scorer.last.weight).sum(dim=1) + scorer.last.bias
        torch.testing.assert_close(scorer(u, v, PairPlaces(pairs), evidence), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("tiles", [None, (1, 1), (4, 3), (5, 2)])
def test_rows_with_evidence_equal_pairs(
    layers: int, dropout: float, tiles: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tiles is not None:
        monkeypatch.setattr(module, "tile", lambda device, dim, heads: tiles)
    scorer, (u, v), evidence = reader_of(layers, dropout), tables(), some_evidence(4, N)
    pairs = torch.cartesian_prod(torch.arange(4), torch.arange(N)).T
    wanted = scorer(u[:4], v, PairPlaces(pairs), evidence.flatten(0, 1)).view(4, N)
    torch.testing.assert_close(scorer.score_rows(u[:4], v, evidence), wanted, rtol=1e-4, atol=1e-5)


def test_evidence_is_standardised_by_a_sample() -> None:
    encoder = EvidenceEncoder(COLUMNS, DIM)
    sample = 3 + 7 * some_evidence(200)
    encoder.standardise(sample)
    x = (sample - encoder.mean) * encoder.scale
    torch.testing.assert_close(x.mean(dim=0), torch.zeros(COLUMNS), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.square().mean(dim=0), torch.ones(COLUMNS), atol=1e-4, rtol=0)


@pytest.mark.parametrize("constant", [0.0, 5.0, -0.1])
def test_constant_columns_are_ignored_whatever_they_say_later(constant: float) -> None:
    scorer, (u, v) = reader_of(3), tables()
    sample = some_evidence(50)
    sample[:, 1] = constant
    assert scorer.evidence is not None
    scorer.evidence.standardise(sample)
    pairs, evidence = torch.tensor([[0, 3, 3, 12], [1, 1, 3, 0]]), some_evidence(4)
    before = scorer(u, v, PairPlaces(pairs), evidence)
    evidence[:, 1] += torch.tensor([1.0, -100.0, 1e6, 3.0])
    assert torch.equal(scorer(u, v, PairPlaces(pairs), evidence), before)
    evidence[:, 2] += 0.5
    assert not torch.equal(scorer(u, v, PairPlaces(pairs), evidence), before)


def test_a_scorer_of_one_layer_cannot_read_evidence() -> None:
    with pytest.raises(ConfigError, match="set scorer_layers to 2 or more"):
        HadamardScorer(DIM, 1, 0.0, COLUMNS)


def evident(directed: bool, device: torch.device | str = "cpu") -> EmbeddingScorer:
    """Returns a scorer of all nodes that reads every kind of evidence about a dated view."""
    view = random_view(N, 26, directed)
    view = GraphView(N, directed, view.links, torch.arange(view.links.shape[1]) % 6)
    u, v = (table.to(device) for table in tables())
    evidence = PairEvidence(sorted(EVIDENCE), view, v)
    return EmbeddingScorer(u, v, reader_of(3, columns=evidence.width).to(device), directed, evidence)


@pytest.mark.parametrize("directed", [True, False])
def test_undirected_scores_read_the_evidence_of_both_orientations(directed: bool) -> None:
    scorer = evident(directed)
    heads, tails = torch.cartesian_prod(torch.arange(N), torch.arange(N)).T
    u, v, evidence = scorer.heads, scorer.tails, scorer.evidence
    assert evidence is not None
    forward = scorer.mlp(u, v, PairPlaces(torch.stack([heads, tails])), evidence(heads, tails)).detach()
    backward = scorer.mlp(u, v, PairPlaces(torch.stack([tails, heads])), evidence(tails, heads)).detach()
    wanted = forward if directed else (forward + backward) / 2
    for _ in range(2):  # the second time from memory
        torch.testing.assert_close(scorer.score_pairs(heads, tails), wanted, rtol=1e-4, atol=1e-5)
        own = scorer.score_tails(torch.arange(N), tails.view(N, N))
        torch.testing.assert_close(own.flatten(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(("first", "last"), [(0, N), (4, 9), (N - 1, N)])
def test_rows_of_a_scorer_with_evidence_equal_its_pairs(directed: bool, first: int, last: int) -> None:
    scorer = evident(directed)
    heads = torch.tensor([5, 0, 5, 12])
    pairs = torch.cartesian_prod(heads, torch.arange(first, last)).T
    wanted = scorer.score_pairs(pairs[0], pairs[1]).view(4, last - first)
    torch.testing.assert_close(scorer.score_rows(heads, first, last), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("directed", [True, False])
def test_scores_with_evidence_on_every_device(directed: bool, device: torch.device) -> None:
    here, there, heads = evident(directed), evident(directed, device), torch.arange(N)
    found = there.score_rows(heads.to(device), 0, N)
    assert found.device.type == device.type
    torch.testing.assert_close(found.cpu(), here.score_rows(heads, 0, N), rtol=1e-3, atol=1e-3)
