"""What the metadata of an input tell, before any of its values is read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Seen:
    """The metadata of an input; ``matrix`` if trees read it, otherwise it judges their cuts or decides their draws.

    ``n_stored`` is the number of entries of a sparse input, ``item`` the bytes of one entry of the matrix in a tree,
    ``staged_bytes`` those of its staged file, and ``laid_bytes`` those of a copy that is made of it before.
    """

    name: str
    address: str
    shape: tuple[int, ...]
    dtype: str
    matrix: bool
    n_stored: int | None = None
    item: int = 4
    staged_bytes: int = 0
    laid_bytes: int = 0

    @property
    def is_weight(self) -> bool:
        """Whether it holds weights, of features, of rows or of pairs."""
        return self.by_feature or self.name in {"input.sample_weight", "input.pair_weight"}

    @property
    def by_class(self) -> bool:
        """Whether it holds distances of classes, not of rows."""
        return self.name.endswith(".costs")

    @property
    def is_of_objects(self) -> bool:
        """Whether it holds the objects that a function is called with."""
        return self.name.endswith(".objects")

    @property
    def is_of_sparse_features(self) -> bool:
        """Whether it holds features of which most are 0."""
        return self.name == "input.features" and self.n_stored is not None

    @property
    def by_feature(self) -> bool:
        """Whether it holds a value for each feature, not for each row."""
        return self.name == "input.feature_weights"
