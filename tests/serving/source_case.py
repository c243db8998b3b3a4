"""The shared case of every source of candidates: a subclass with a `source` fixture tests the contract."""

from itertools import product

import numpy as np
import pytest
import torch
from sights import SIGHTS, Dense

from headtail.graph.csr import CSR
from headtail.graph.matrix import Matrix
from headtail.serving.candidates import CandidateSource
from headtail.serving.sight import Sight
from random_graphs import random_links

Source = type[CandidateSource]


class SourceCase:
    """What holds for every source. Subclasses override the `source` fixture, and `wanted` where there is a formula."""

    # How far what is said of a head may lie from the definition, and may depend on the heads beside it.
    tolerance, beside = 1e-5, 0.0

    @pytest.fixture
    def source(self) -> Source:
        raise NotImplementedError("give the case a `source` fixture")

    def wanted(self, source: Source, sight: Sight) -> Dense | None:
        """Returns [N, N], what the source is to say of every pair, from the definition; None: nobody knows."""
        return None

    @pytest.fixture(params=SIGHTS)
    def sight(self, request: pytest.FixtureRequest, source: Source) -> Sight:
        sight = SIGHTS[request.param]()
        missing = source.unavailable(sight)
        if missing is not None:
            assert missing[-1].isalnum()  # it stands in the middle of sentences
            pytest.skip(missing)
        return sight

    def test_says_what_its_definition_says(self, source: Source, sight: Sight) -> None:
        n = sight.num_nodes
        found, wanted = source(sight).scores(np.arange(n)).toarray(), self.wanted(source, sight)
        assert found.shape == (n, n)
        assert np.isfinite(found).all()
        assert (found >= 0).all()
        np.fill_diagonal(found, 0)  # of the head itself nothing counts
        if wanted is not None:
            np.fill_diagonal(wanted, 0)
            np.testing.assert_allclose(found, wanted, rtol=self.tolerance, atol=self.tolerance / 10)

    def test_proposes_the_best_that_may_be_answered(self, source: Source, sight: Sight) -> None:
        n, made = sight.num_nodes, source(sight)
        heads, others = torch.arange(n).flip(0), random_links(n, min(3 * n, n * (n - 1) // 2), True)
        scores = made.scores(np.arange(n)).toarray()
        for known, most in product((None, sight.view.out_rows, CSR.from_links(others, n)), (1, 7, 50)):
            found = made.propose(heads, most, known)
            assert found.shape == (n, most)
            assert found.dtype == torch.long
            for head, row in zip(heads.tolist(), found.tolist(), strict=True):
                barred = {head, *([] if known is None else known.block(head, head + 1).col.tolist())}
                allowed = [tail for tail in range(n) if scores[head, tail] > 0 and tail not in barred]
                best = sorted(allowed, key=lambda tail: (-scores[head, tail], tail))[:most]
                assert row == best + [-1] * (most - len(best))

    def test_says_the_same_again_and_of_one_head_alone(self, source: Source, sight: Sight) -> None:
        made, heads = source(sight), torch.arange(sight.num_nodes)
        found = made.propose(heads, 8)
        assert torch.equal(made.propose(heads, 8), found)
        assert torch.equal(source(sight).propose(heads, 8), found)
        assert made.propose(heads[:0], 8).shape == (0, 8)
        together, alone = made.scores(heads.numpy()), [made.scores(head.numpy()) for head in heads.split(1)]
        said = np.concatenate([each.toarray() for each in alone])
        np.testing.assert_allclose(together.toarray(), said, rtol=self.beside, atol=self.beside)
        if not self.beside:
            assert torch.equal(torch.cat([made.propose(head, 8) for head in heads.split(1)]), found)

    def test_leaves_what_it_sees_as_it_was(self, source: Source, sight: Sight) -> None:
        links, before = sight.view.links.clone(), [_copy(each) for each in (sight.out, sight.into, sight.around)]
        features = None if sight.described is None else sight.described.features.clone()
        source(sight).propose(torch.arange(sight.num_nodes), 5)
        assert torch.equal(sight.view.links, links)
        assert sight.described is None or torch.equal(sight.described.features, features)  # type: ignore[arg-type]
        for matrix, was in zip((sight.out, sight.into, sight.around), before, strict=True):
            assert all(np.array_equal(mine, its) for mine, its in zip(_copy(matrix), was, strict=True))


def _copy(matrix: Matrix) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    return [np.array(part) for part in (matrix.data, matrix.indices, matrix.indptr)]
