"""AML, symmetric and SMLP with all the evidence that a graph allows: the contract."""

import pytest
from method_case import MethodCase, random_view
from tiny_methods import ForAnyView, tiny_method

from headtail.contract import Method
from headtail.graph.view import GraphView
from headtail.training.trainer import GnnMethod


class GnnCase(MethodCase):
    """What holds for every method whose scorer reads evidence beside representations of nodes."""

    name: str
    tolerance = 1e-5

    @pytest.fixture
    def method(self) -> Method:
        return ForAnyView(self.name)


class TestAml(GnnCase):
    name = "aml"


class TestSymmetric(GnnCase):
    name = "symmetric"


class TestSmlp(GnnCase):
    name = "smlp"


class TestDatedAml(GnnCase):
    name = "aml"

    def view_of(self, directed: bool) -> GraphView:
        return random_view(directed, dated=True)


@pytest.mark.parametrize(
    ("dated", "kinds"),
    [(False, "degrees, common, paths, similarity"), (True, "degrees, common, paths, similarity, ages")],
)
def test_the_cases_read_evidence(dated: bool, kinds: str) -> None:
    method = tiny_method("aml", directed=True, dated=dated)
    assert isinstance(method, GnnMethod)
    assert method.summary.endswith(f"evidence {kinds}")
