"""Sparse sources and graphs that are staged: three arrays, which any host can open."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distforest.sources.graph_distances import GraphDistances
from distforest.sources.sparse import SparseSource

if TYPE_CHECKING:
    from distforest.sources.array_files import Mapped
    from distforest.sources.scratch import ScratchFolder
    from distforest.sources.sparse_features import SparseFeatures
    from distforest.sources.staging import Staged


@dataclass(frozen=True)
class StagedSparse:
    """A sparse source that can be opened on any host: its three arrays are staged.

    Attributes
    ----------
    indptr, indices, data
        The staged arrays of the source.
    shape
        Rows and columns.
    origin
        The user's address of the matrix; None if it was given in memory.
    opens
        The kind of source.
    """

    indptr: Staged
    indices: Staged
    data: Staged
    shape: tuple[int, int]
    origin: str | None = None
    opens: type[SparseSource | SparseFeatures] = SparseSource

    @property
    def address(self) -> str:
        """Address of the values."""
        return self.origin or self.data.address

    @property
    def sha256(self) -> str:
        """Digest of the three arrays' digests and the shape."""
        parts = [self.indptr.sha256, self.indices.sha256, self.data.sha256, *map(str, self.shape)]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    @property
    def parts(self) -> tuple[Staged, Staged, Staged]:
        """The three arrays."""
        return self.indptr, self.indices, self.data

    @property
    def n_bytes(self) -> int:
        """Size of the three arrays."""
        return sum(part.n_bytes for part in self.parts)

    def open(self, scratch: ScratchFolder, files: list[Mapped] | None = None) -> SparseSource | SparseFeatures:
        """Open the source on this host, as memory maps; see `Staged.open`."""
        arrays = [part.open(scratch, files) for part in self.parts]
        return self.opens.from_arrays(arrays[0], arrays[1], arrays[2], self.shape)


@dataclass(frozen=True)
class StagedGraph:
    """The distances in a graph, which can be opened on any host.

    Attributes
    ----------
    stored
        The distances of linked nodes.
    absent
        The distance of all others.
    offset
        The constant that was subtracted from all distances.
    """

    stored: StagedSparse
    absent: float
    offset: float

    @property
    def sha256(self) -> str:
        """Digest of the links and of the distance without one."""
        return hashlib.sha256(f"{self.stored.sha256} {self.absent!r}".encode()).hexdigest()

    def open(self, scratch: ScratchFolder, files: list[Mapped] | None = None) -> GraphDistances:
        """Open the graph on this host, as memory maps; see `Staged.open`."""
        stored = self.stored.open(scratch, files)
        assert isinstance(stored, SparseSource)  # noqa: S101  (that is what it opens)
        return GraphDistances(stored, self.absent)
