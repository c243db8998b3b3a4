"""The documentation keeps up with the code, and the README stays short."""

import ast
import importlib.util
import re
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
import torch

from headtail.graph.matrix import Matrix, Nodes
from headtail.registry import Registry
from headtail.serving.candidates import CandidateSource
from headtail.serving.sight import Sight
from random_graphs import as_pairs, random_view

ROOT = Path(__file__).parent.parent


def test_the_reference_page_is_current() -> None:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "scripts" / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = script.PAGE.read_text(encoding="utf-8")
    assert script.regenerated(page) == page, "run: python scripts/make_reference.py"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize(
    "page", sorted(p.relative_to(ROOT).as_posix() for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
        assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}, which does not exist"


def examples(heading: str) -> list[str]:
    """The Python of a section of CONTRIBUTING.md."""
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split(f"### {heading}\n")[1].split("\n### ")[0]
    return re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)


@pytest.mark.parametrize("directed", [True, False])
def test_the_example_of_a_candidate_source_works(directed: bool) -> None:
    """Against sets of neighbours. It is short, and so is its test."""
    code, test = examples("A candidate source")
    assert (len(code.splitlines()) <= 20, len(test.splitlines())) == (True, 6)
    assert isinstance(ast.parse(test).body[0], ast.ClassDef)
    sources: Registry[type[CandidateSource]] = Registry("candidate source")
    names = {"SOURCES": sources, "CandidateSource": CandidateSource, "Matrix": Matrix, "Nodes": Nodes}
    exec(compile(code, "CONTRIBUTING.md", "exec"), names | {"np": np, "cached_property": cached_property})
    source = sources["jaccard"]
    assert source.name == "jaccard"
    view = random_view(20, 60, directed)
    around: dict[int, set[int]] = {node: set() for node in range(20)}
    for head, tail in as_pairs(view.links):
        around[head].add(tail)
        around[tail].add(head)
    found = source(Sight.of(view)).scores(np.arange(20)).toarray()
    for head in range(20):
        for tail in range(20):
            both = around[head] | around[tail]
            share = len(around[head] & around[tail]) / len(both) if both else 0
            assert found[head, tail] == pytest.approx(share)
    assert source(Sight.of(view)).propose(torch.arange(20), 3, view.out_rows).shape == (20, 3)
