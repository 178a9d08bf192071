"""What all estimators share: parameters, growing a forest, sealing it."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Mapping
from dataclasses import fields, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from distforest.errors import InputError, warn_caller
from distforest.forest.estimates import Estimates
from distforest.forest.roots import Roots
from distforest.forest.sealed.artifact import open_forest, save
from distforest.forest.table import n_roots_of
from distforest.growth.cuts.class_weights import key_of
from distforest.growth.cuts.far_values import told_of_far
from distforest.growth.methods import check_together, problem
from distforest.growth.parameters import Parameter, complete
from distforest.growth.problem import Data
from distforest.growth.standstill import told_of_roots
from distforest.jobs.cluster import Here
from distforest.jobs.inputs import from_data
from distforest.jobs.screening import screened_data
from distforest.jobs.train import Options, fit, fit_here
from distforest.sources.data_frames import check_number_columns, dtypes_of, numbers_of_columns
from distforest.sources.doubts import Sample, told_of_rounding
from distforest.sources.feature_names import FeatureNames
from distforest.sources.given import is_data_frame, is_sparse, is_stored, unmasked
from distforest.sources.opening import opened_rows
from distforest.sources.readings import FEATURES, read
from distforest.sources.sparse import SparseSource, warn_of_zeros
from distforest.sources.truth import Truth, TruthKind
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from distforest.forest.forest import Forest, Meaning
    from distforest.growth.methods import Bound, Method
    from distforest.sources.row_kinds import RowKind
    from distforest.sources.source import Float32s, Floats, Ints

RUN_PARAMETERS = """random_state : int, RandomState or None, default=None
    Seed of the forest. An integer is the seed itself: the same data then lead to the same ``digest_``.
n_jobs : int or None, default=None
    Threads that grow trees: None is 1, -1 all cores. The forest is the same with any number.
client : distributed.Client or None, default=None
    Grow the trees on this Dask cluster, whose workers must see this process's temporary folder. The forest
    is the same. Clones share the client; copies and pickles go without it."""


ESTIMATED = tuple(field.name for field in fields(Estimates))
"""What a fit may have estimated; an estimator has an attribute for each, with an underscore behind its name."""


WORKED_OUT = ("oob_decision_function", "oob_prediction")
"""What follows from a forest alone, once it is asked for."""


class ForestEstimator(BaseEstimator):  # type: ignore[misc]
    """What all estimators share: parameters, growing a forest, sealing it."""

    _method: ClassVar[Method]
    _parameters: ClassVar[tuple[Parameter, ...]] = ()
    random_state: Any
    n_jobs: int | None
    client: Any
    forest_: Forest
    _column_numbers: tuple[int, ...] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # each parameter is described once, in growth/parameters.py
        rows = [f"{p.name} : {p.allowed()}, default={p.default!r}\n    {p.text}" for p in cls._parameters]
        text = "\n".join([*rows, RUN_PARAMETERS]).replace("\n", "\n    ")
        cls.__doc__ = (cls.__doc__ or "").replace("{parameters}", text)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "client": None}  # a connection cannot be copied

    def __sklearn_clone__(self) -> Self:
        twin: Self = BaseEstimator.__sklearn_clone__(copy.copy(self))
        twin.client = self.client
        return twin

    def save(self, address: str | os.PathLike[str]) -> str:
        """Seal the forest in a new Zarr group at a path or URL, for `load`; returns its digest.

        Raises
        ------
        ArtifactError
            There is something at the address already: nothing is replaced.
        """
        check_is_fitted(self)
        found = {name: getattr(self, f"{name}_", None) for name in ESTIMATED}
        provenance = Estimates(**found).into(self.forest_.provenance)
        forest, names = replace(self.forest_, provenance=provenance), self._names()
        return save(forest if names is None else forest.named(names.kept()), os.fspath(address))

    def _hold(self, forest: Forest) -> None:
        """Hold a forest in the place of any other, of which nothing that was estimated is left."""
        self.forest_, self.digest_ = forest, forest.digest
        for name in (*ESTIMATED, *WORKED_OUT):
            self.__dict__.pop(f"{name}_", None)

    @classmethod
    def _opens(cls, meaning: Meaning) -> bool:
        """Whether it is the estimator of a forest."""
        return meaning.method == cls._method.name

    def _adopt(self, forest: Forest) -> None:
        """Take a forest that was opened for the fitted one, with what its fit has estimated and its features' names."""
        self._hold(forest)
        found = Estimates.of(forest.provenance)
        for name in ESTIMATED:
            if getattr(found, name) is not None:
                setattr(self, f"{name}_", getattr(found, name))
        self.n_features_in_ = forest.n_features
        self._name(forest.feature_names)

    def _name(self, names: FeatureNames | None) -> None:
        """Take the names of the columns of ``X``, or forget those of an earlier fit."""
        for attribute in ("feature_names_in_", "feature_dtypes_in_"):
            self.__dict__.pop(attribute, None)
        if names is not None:
            self.feature_names_in_ = np.array(names.names, object)
            if names.dtypes:
                self.feature_dtypes_in_ = np.array(names.dtypes, object)

    def _names(self) -> FeatureNames | None:
        """What the columns of ``X`` were called when it was fitted; None where they had no names."""
        if not hasattr(self, "feature_names_in_"):
            return None
        return FeatureNames(tuple(self.feature_names_in_), tuple(getattr(self, "feature_dtypes_in_", ())))

    def _rows(self, X: Any, reset: bool) -> Any:
        """Pass ``X`` on to `read`: an array on disk as it is, anything else through scikit-learn's checks."""
        where, X = X, unmasked(opened_rows(X))
        if is_stored(X):
            return self._stored_rows(X, os.fspath(where) if isinstance(where, (str, os.PathLike)) else "X", reset)
        is_frame = is_data_frame(X)
        if is_frame:
            check_number_columns(X)
            self._check_numbered_columns(X, reset)
        if is_sparse(X):
            warn_of_zeros(X)
        accept_sparse = "csr" if self.__sklearn_tags__().input_tags.sparse else False
        rows = validate_data(self, X, reset=reset, accept_sparse=accept_sparse, ensure_all_finite=False)
        if reset:
            own = self._names()
            self._name(own and replace(own, dtypes=dtypes_of(X) if is_frame else ()))
        return rows

    def _check_numbered_columns(self, frame: Any, reset: bool) -> None:
        """Refuse columns called by whole numbers in another order than in `fit`: scikit-learn compares strings only."""
        found = numbers_of_columns(frame)
        if reset:
            self._column_numbers = found
        own = self._column_numbers
        if own and found and found != own and sorted(found) == sorted(own):
            place = next(place for place, (one, other) in enumerate(zip(own, found, strict=True)) if one != other)
            asked = f"X: the columns of fit in their order were expected; column {place} was {own[place]} there"
            raise InputError(f"{asked}, found {found[place]}; give X[{list(own)[:5]}{'...' if len(own) > 5 else ''}]")

    def _stored_rows(self, X: Any, where: str, reset: bool) -> Any:
        """Pass an array on disk on; the names in its attributes count as those of a data frame do."""
        found, own = FeatureNames.of_array(where, X), self._names()
        if found is not None and own is not None and not reset:
            own.check_same(found, where)
            return X
        validate_data(self, X, reset=reset, skip_check_array=True)
        if reset:
            self._name(found)
        return X

    def _read_features(self, rows: Any) -> Float32s:
        """Read what `_rows` has passed on as the features to learn from, shape (n, n_features).

        Told of are columns whose values float32 does not tell apart.
        """
        sample = Sample()
        features: Float32s = read(rows, FEATURES, onlooker=sample)
        if told := told_of_rounding(sample, self._names()):
            warn_caller(told)
        return features

    def _checked(self, truth: Any) -> dict[str, Any]:
        """Refuse bad parameters, all at once, or no truth; return the method's parameters as plain values."""
        if truth is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        plain = {name: _plain(value) for name, value in self._given().items()}
        complete(self._parameters, plain)
        params = {row.name: plain.get(row.name, row.default) for row in self._method.parameters}
        check_together(params)  # before features are screened
        return params

    def _warn_of_far(self, truth: Truth) -> None:
        """Warn where values that are taught lie so far from the others that these cannot be told apart or predicted."""
        if truth.kind.is_of_vectors and (told := told_of_far(truth.values, truth.kind)):
            warn_caller(told)

    def _given(self) -> dict[str, Any]:
        """Collect the parameters as they were given."""
        return {row.name: getattr(self, row.name) for row in self._parameters}

    def _grow(
        self,
        rows: RowKind,
        matrix: np.ndarray | SparseSource,
        truth: Truth | None,
        params: dict[str, Any],
        weights: Floats | None = None,
    ) -> None:
        """Grow the forest from a matrix and its truth, or from nothing but the matrix where there is none."""
        truth = truth or Truth(TruthKind.NOTHING, np.empty((matrix.shape[0], 0)))
        of_truth = (truth.kind, truth.values, truth.classes, truth.largest)
        data = Data(rows, matrix, *of_truth, weights, offset=truth.offset)
        self._grow_from(data, params, seed_of(self.random_state))

    def _grow_from(self, data: Data, params: dict[str, Any], seed: int) -> None:
        """Grow the forest, here or on the cluster; warns where it has learned nothing."""
        if self.client is None:
            threads = n_threads(self.n_jobs)
            if params.get("feature_weights") == "dependence":
                data = screened_data(data, seed, Here(threads))
            bound = problem(self._method, data, params, seed)
            self._hold(fit_here(bound, threads))
            told = [_told_of_roots(bound, self.forest_)]
        else:
            with tempfile.TemporaryDirectory(prefix="distforest-") as place:
                from distforest.jobs.on_dask import OnDask  # noqa: PLC0415  (a fit in threads does without Dask)

                job = Folder(f"{place}/job")
                inputs = from_data(data, self._method.name, params, seed, job.address)
                done = fit(inputs, f"{place}/forest.zarr", job, OnDask(self.client), Options())
                self._hold(open_forest(done.address))
                told = list(done.warnings)
        for text in filter(None, told):
            warn_caller(text)


def _told_of_roots(problem: Bound, forest: Forest) -> str:
    """What is to be told of trees without a cut; nothing where most trees have one."""
    if 2 * n_roots_of(forest.table.tree_size) <= forest.n_trees:
        return ""
    return told_of_roots(problem, Roots.of_forest(forest))


def _plain(value: Any) -> Any:
    """A parameter in Python's own types; the labels of a table as strings."""
    if isinstance(value, Mapping):
        return {key_of(label): _plain(weight) for label, weight in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def n_threads(n_jobs: Any) -> int:
    """Read ``n_jobs`` as scikit-learn does: None is 1, -1 all cores, -2 all but one."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise InputError(f"n_jobs must be None or an integer other than 0, found {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


def seed_of(random_state: Any) -> int:
    """Take an integer as it is; else draw one from the RandomState."""
    if not isinstance(random_state, Integral):
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    if not 0 <= int(random_state) < 2**63:
        raise InputError(f"random_state must be in [0, 2^63), a RandomState or None, found {random_state!r}")
    return int(random_state)


def estimated(count: Ints, things: str) -> np.ndarray:
    """Which ``things`` have an out-of-bag estimate; warns where some have none, refuses where all."""
    known: np.ndarray = count > 0
    if not known.any():
        cure = "set bootstrap=True or a smaller max_samples, or grow more trees"
        raise InputError(f"oob_score: no tree left any of the {things} out of its sample; {cure}")
    if not known.all():
        n_unknown = int((~known).sum())
        text = f"{n_unknown:,} of {len(known):,} {things} {'has' if n_unknown == 1 else 'have'} no out-of-bag estimate"
        warn_caller(f"{text}; grow more trees")
    return known


def r_squared(true: Floats, found: Floats) -> float:
    """Take the coefficient of determination."""
    from sklearn.metrics import r2_score  # noqa: PLC0415  (a tenth of a second that a fit does without)

    return float(r2_score(true, found))
