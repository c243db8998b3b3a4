"""The message graph: Â = normalised A + I, and features pre-encoded with it (eq. 2)."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.graph.mapped import MappedCSR, MappedView
from headtail.graph.pages import expect_reads, expect_rows
from headtail.graph.pre_encoding import pre_encode, pre_encode_on_disk
from headtail.graph.pre_encoding_across import pre_encode_across
from headtail.graph.tables import HostTable, Table, rows_of, values_of
from headtail.graph.view import GraphView, both_ways
from headtail.ranks import ALONE, Ranks

NORMALISATIONS = ("row", "column", "symmetric")


def add_self_loops(view: GraphView) -> CSR:
    """Returns A + I: the symmetric pattern of a view with one self-loop per node."""
    if isinstance(view, MappedView):
        return view.message_rows
    loops = torch.arange(view.num_nodes, device=view.links.device).expand(2, -1)
    return CSR.from_links(torch.cat([both_ways(view.links), loops], dim=1), view.num_nodes)


def normalise(pattern: CSR, how: str) -> CSR:
    """Returns Â: the pattern weighted by D⁻¹ ("row"), on the right ("column"), or D^-½ on both sides."""
    if how == "row" and isinstance(pattern, MappedCSR):
        return pattern.averaged
    degree = pattern.degrees.to(torch.float32)
    if how == "row":
        return pattern.with_weight(degree.reciprocal()[pattern.row])
    if how == "column":
        return pattern.with_weight(degree.reciprocal()[pattern.col])
    if how == "symmetric":
        root = degree.rsqrt()
        return pattern.with_weight(root[pattern.row] * root[pattern.col])
    raise ValueError(f"unknown normalisation {how!r}")


@dataclass(frozen=True)
class MessageGraph:
    """What encoders read: Â with self-loops, the features X [N, d] and their pre-encoding.

    `adjacency` carries the normalised weights Â; `normalisation` names them. It is on the device, the features may be
    in host memory. Pre-encoded features go to a file where `on_disk`; to the one in `kept`, if that is given. They are
    computed by several `ranks` together, when all first ask for them.
    """

    adjacency: CSR
    normalisation: str
    features: Table
    layers: int
    on_disk: bool = False
    kept: Path | None = None
    ranks: Ranks = ALONE

    @staticmethod
    def build(
        view: GraphView,
        features: Table,
        normalisation: str,
        layers: int,
        on_disk: bool = False,
        kept: Path | None = None,
        ranks: Ranks = ALONE,
    ) -> "MessageGraph":
        """Builds the message graph of a view, on the device of `features`."""
        pattern = add_self_loops(view.to(features.device))
        return MessageGraph(normalise(pattern, normalisation), normalisation, features, layers, on_disk, kept, ranks)

    @cached_property
    def pre_encoded(self) -> Table:
        """Â^L X [N, d]."""
        if self.ranks.several:
            return pre_encode_across(self.ranks, self.adjacency, self.features, self.layers, self.on_disk, self.kept)
        if self.on_disk:
            return pre_encode_on_disk(self.adjacency, self.features, self.layers, self.kept)
        return pre_encode(self.adjacency, self.features, self.layers)

    def prepare(self) -> None:
        """Makes what is made once. Ranks make it together, so all must be at the same place then."""
        _ = self.pre_encoded

    @property
    def fetched_features(self) -> Table:
        """X [N, d]; where it lies in a file, rows are to be fetched together instead of read one by one."""
        if not self.on_disk or isinstance(self.features, HostTable):
            return self.features
        return HostTable(self.features, self.device, on_disk=True)

    def expect_reads(self, at_random: bool) -> None:
        """Tells the system how features in files, if they are made, will be read: row by row at random, or in order."""
        tables = [self.features, *([self.pre_encoded] if "pre_encoded" in self.__dict__ else [])]
        for table in tables if self.on_disk else ():
            expect_reads(values_of(table), at_random)

    def expect_rows(self, read: Tensor, encoded: Tensor) -> None:
        """Has the system read features, and pre-encoded features, of some nodes from files before they are needed."""
        made = "pre_encoded" in self.__dict__
        wanted = [(self.features, read), *([(self.pre_encoded, encoded)] if made else [])]
        for table, nodes in wanted:
            expect_rows(values_of(table), nodes)

    @cached_property
    def residual(self) -> Tensor:
        """X − Â^L X [N, d] (eq. 4)."""
        return self.residual_of(slice(None))

    def residual_of(self, nodes: Tensor | slice) -> Tensor:
        """Returns X − Â^L X of some nodes, on the device, without computing it for all."""
        if "residual" in self.__dict__:
            return rows_of(self.residual, nodes)
        return rows_of(self.features, nodes) - rows_of(self.pre_encoded, nodes)

    def rounded(self, kind: torch.dtype) -> "MessageGraph":
        """Returns the same with features, pre-encoded features and their difference in another precision.

        Features in host memory stay as they are: what is read of them is rounded on the way.
        """
        if not isinstance(self.features, Tensor) or not isinstance(self.pre_encoded, Tensor):
            return self
        other = replace(self, features=self.features.to(kind))
        other.__dict__["pre_encoded"] = self.pre_encoded.to(kind)
        other.__dict__["residual"] = torch.sub(self.features, self.pre_encoded).to(kind)
        return other

    @cached_property
    def relative_weight(self) -> Tensor | None:
        """float32 [entries], Â_ij · degree_i: what an entry counts beside the others of its row.

        None for row normalisation, where it is 1 everywhere. Samplers multiply it into their own weights,
        so a sampled row estimates the same sum under every normalisation.
        """
        if self.normalisation == "row":
            return None
        assert self.adjacency.weight is not None
        return self.adjacency.weight * self.adjacency.degrees[self.adjacency.row]

    @cached_property
    def diagonal(self) -> Tensor:
        """int64 [N], the place of every node's self-loop in the adjacency."""
        return self.adjacency.diagonal()

    @property
    def num_nodes(self) -> int:
        return self.adjacency.num_rows

    @property
    def device(self) -> torch.device:
        return self.features.device
