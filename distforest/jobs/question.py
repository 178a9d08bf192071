"""A question to a sealed forest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from distforest.sources.scratch import OF_HOST, ScratchFolder

if TYPE_CHECKING:
    from distforest.jobs.callback import Callback
    from distforest.jobs.spec import Relation

ARRAYS = ("queries", "reference", "pairs", "training")
"""Arrays that a question may name."""


@dataclass(frozen=True)
class Question:
    """A question to a forest: the answer to compute, the rows that it is about, and its options.

    Attributes
    ----------
    forest
        Address of a sealed forest.
    queries
        Address of a Zarr array of rows, as `Forest.source` reads them, shape (n, n_columns); similarities may also be a
        sparse matrix in Zarr.
    answer
        The name of one of `distforest.jobs.answers.ANSWERS`.
    reference
        For ``"distance"`` and ``"proximity"``: address of the rows with which queries are compared; by default the
        training rows.
    pairs
        For ``"pairs"``: address of the row numbers of each pair in ``queries``, shape (n_pairs, 2).
    n_neighbors
        For ``"neighbors"``: number of neighbours.
    without_self
        For ``"neighbors"``: whether the queries are the training rows, in order, and none is its own neighbour.
    share
        For ``"probability"``: the share of similar pairs where the answers are used; None: as among the calibration
        pairs.
    training_ids
        For ``"neighbors"`` in a table: address of the training rows, beside which `ingest` has stored names; the
        neighbours then have names instead of numbers.
    callback
        The function that computes similarities; ``queries`` and ``reference`` then contain objects.
    training
        With a callback, the address of the training objects; by default their numbers.
    strict
        Whether arrays are refused if some of their chunks are not stored.
    max_bytes
        Largest size that the metadata of an array may give, in bytes, however few bytes are stored.
    source
        Name of the queries in messages, if they come from a file.
    sides, distances
        For ``"distance"``, both or neither: which distance to a training row is taken, one of
        `distforest.distance_sides.SIDED`; and the ground truth of the training rows, which gives their own distances.
    scratch
        With these, the folder for staged files; each host has one.
    """

    forest: str
    queries: str
    answer: str
    reference: str | None = None
    pairs: str | None = None
    n_neighbors: int = 10
    without_self: bool = False
    share: float | None = None
    training_ids: str | None = None
    callback: Callback | None = None
    training: str | None = None
    strict: bool = False
    max_bytes: int | None = None
    source: str | None = None
    sides: str | None = None
    distances: Relation | None = None
    scratch: ScratchFolder = OF_HOST

    @property
    def called(self) -> str:
        """Name of the queries in messages."""
        return self.source or self.queries

    @property
    def arrays(self) -> dict[str, str]:
        """The addresses of all arrays that are read, by name."""
        of_truth = {} if self.distances is None else self.distances.addresses_as("distances")
        return {name: address for name in ARRAYS if (address := getattr(self, name))} | of_truth

    def addresses(self) -> dict[str, str]:
        """Return the addresses of everything that is read, by name."""
        ledger = self.callback.ledger if self.callback else None
        others = {"ledger": ledger, "training_ids": self.training_ids}
        return {"forest": self.forest, **self.arrays, **{name: own for name, own in others.items() if own}}
