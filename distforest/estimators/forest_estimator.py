"""The base of all estimators: their parameters, how they grow a forest, and how they seal it."""

from __future__ import annotations

import copy
import os
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from distforest.amounts import counted
from distforest.checks.suspicions import Given
from distforest.checks.table import warn_of
from distforest.errors import InputError, warn_caller
from distforest.estimators.input_types import SeedLike, VectorLike
from distforest.estimators.reading import ReadsRows
from distforest.forest.estimates import Estimates
from distforest.forest.exports import export_forest
from distforest.forest.roots import Roots, Stayed
from distforest.forest.sealed.artifact import open_forest, save
from distforest.forest.table import n_roots_of
from distforest.growth.cuts.class_weights import key_of
from distforest.growth.methods import check_together, problem, weights_of_rows
from distforest.growth.parameters import Parameter, complete
from distforest.growth.passes import Passes
from distforest.growth.problem import Data
from distforest.growth.standstill import told_of_roots
from distforest.html_table import html_table
from distforest.jit import compiling_told
from distforest.jobs.cluster import Here
from distforest.jobs.plan import WorkerRoom, budget_of
from distforest.jobs.progress import shown_progress
from distforest.jobs.scratch_room import unused_bytes
from distforest.jobs.screening import screened_data
from distforest.jobs.staging import from_data
from distforest.jobs.train import Options, fit, fit_here
from distforest.sources.files.ids import told_of_addresses
from distforest.sources.given import in_memory, unmasked
from distforest.sources.opening import opened_array
from distforest.sources.row_order import told_of_row_order
from distforest.sources.scratch import OF_HOST
from distforest.sources.sparse import SparseSource
from distforest.sources.truth import Truth, TruthKind
from distforest.sources.weights import OF_ROWS, Weighed, checked_weights
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from distributed import Client
    from numpy.typing import NDArray
    from sklearn.utils import Tags

    from distforest.forest.chosen_cut import ChosenCut
    from distforest.forest.forest import Forest, Meaning
    from distforest.growth.methods import Method
    from distforest.growth.parameters import Value
    from distforest.growth.problem import Problem
    from distforest.growth.sample_weights import SampleWeights
    from distforest.jobs.cluster import Watch
    from distforest.jobs.on_dask import OnDask
    from distforest.sources.row_kinds import RowKind
    from distforest.sources.source import Floats, Ints
    from distforest.sources.sparse_features import SparseFeatures

CATEGORICAL = """categorical_features : array-like, "from_dtype" or None, default="from_dtype"
    Which features are categories: a mask, positions or names. ``"from_dtype"``: columns of a data frame or of an array
    of objects that hold strings, or whose dtype is one of categories. None: all are numbers."""
"""The parameter of estimators that take categories."""

RUN_PARAMETERS = """random_state : int, RandomState or None, default=None
    Seed of the forest. An integer is the seed itself: the same data then lead to the same ``digest_``.
n_jobs : int or None, default=None
    Number of threads that grow trees: None means 1, -1 all cores. It does not change the forest.
verbose : int, default=0
    0: silent. 1: tell on stderr that kernels are compiled, how many trees are grown, and the time left. It does not
    change the forest.
warm_start : bool, default=False
    Add trees to the forest of the last fit, up to ``n_estimators``, instead of growing a new one. Data and all other
    parameters must be the same; the digest is that of all trees grown at once.
client : distributed.Client or None, default=None
    Grow the trees on this Dask cluster. Its workers must see this process's temporary folder (TMPDIR), which is
    checked first. It does not change the forest. Clones share the client; copies and pickles have none."""


ESTIMATED = tuple(field.name for field in fields(Estimates))
"""Names of the estimates that a fit may make; the attribute of an estimator has an underscore after the name."""


WORKED_OUT = ("oob_decision_function", "oob_prediction")
"""Names of the estimates that follow from the forest alone; they are computed when they are first read."""


class ForestEstimator(ReadsRows):
    """The base of all estimators."""

    _method: ClassVar[Method]
    _parameters: ClassVar[tuple[Parameter, ...]] = ()
    random_state: SeedLike
    n_jobs: int | None
    verbose: int
    warm_start: bool
    client: Client | None
    forest_: Forest
    _are_labels_stated: bool = False  # by Labels(y), and not taken for labels

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        # each parameter is described once, in growth/parameters.py
        rows = [f"{p.name} : {p.allowed()}, default={p.default!r}\n    {p.text}" for p in cls._parameters]
        taken = [CATEGORICAL] if "categorical_features" in cls.__annotations__ else []
        text = "\n".join([*rows, *taken, RUN_PARAMETERS]).replace("\n", "\n    ")
        cls.__doc__ = (cls.__doc__ or "").replace("{parameters}", text)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        return tags

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "client": None}  # a connection cannot be copied

    def __dask_tokenize__(self) -> object:
        from dask.tokenize import normalize_token  # noqa: PLC0415  (a fit in threads does without Dask)

        state = self.__getstate__()  # of a dataclass Dask takes the parameters only; a forest counts by its digest
        return normalize_token((type(self), {**state, "forest_": getattr(self, "digest_", None)}))

    def __sklearn_clone__(self) -> Self:
        twin: Self = BaseEstimator.__sklearn_clone__(copy.copy(self))
        twin.client = self.client
        return twin

    def _repr_html_inner(self) -> str:
        """Scikit-learn's HTML, and after a fit a table of the forest."""
        html = str(super()._repr_html_inner())
        if not hasattr(self, "forest_"):
            return html
        rows: list[tuple[str, object]] = [
            ("method", self._method.name),
            ("trees", f"{self.forest_.n_trees:,}"),
            ("training rows", f"{self.forest_.n_training:,}"),
            ("digest", self.digest_),
        ]
        if hasattr(self, "oob_score_"):
            rows.append(("out-of-bag score", f"{self.oob_score_:.4g}"))
        return html + html_table(rows)

    def _repr_mimebundle_(self, **options: object) -> dict[str, Any]:
        """The same HTML for a notebook, beside the text."""
        bundle: dict[str, Any] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    def save(self, address: str | os.PathLike[str]) -> str:
        """Seal the forest as a new Zarr group at a path or URL, which `load` opens; return its digest.

        With the suffix ``.zip`` it is one file.

        Raises
        ------
        ArtifactError
            The address is in use; nothing is replaced.
        """
        return save(self._sealable(), os.fspath(address))

    def export(self, address: str | os.PathLike[str]) -> None:
        """Write the forest in the form that the suffix of a path or URL names: a file as a whole or not at all.

        Parameters
        ----------
        address
            ``.onnx``: what `predict` and `predict_proba` answer, as a model that programs with ONNX run without
            distforest. ``.zip``: the sealed forest in one file, which `load` opens. ``.zarr``: as `save`.

        Raises
        ------
        InputError
            The suffix is another one, the folder does not exist, or ONNX cannot express the forest: it holds
            predictions of forests on labels, targets or an embedding whose splits compare single numbers.
        ArtifactError
            The address is in use; nothing is replaced.
        """
        export_forest(self._sealable(), os.fspath(address))

    def _sealable(self) -> Forest:
        """The forest with the estimates of its fit and the columns of ``X``, as it is sealed."""
        check_is_fitted(self)
        estimates = {name: getattr(self, f"{name}_", None) for name in ESTIMATED}
        provenance = Estimates(**estimates).into(self.forest_.provenance)
        forest, schema = replace(self.forest_, provenance=provenance), self._schema()
        return forest if schema is None else forest.with_schema(schema.kept())

    def _set_forest(self, forest: Forest) -> None:
        """Set the forest, with the names of its categories, and forget the estimates of an earlier one."""
        schema = self._schema()
        named = schema is not None and bool(self._n_categories())
        self.forest_, self.digest_ = forest.with_schema(schema) if schema and named else forest, forest.digest
        for name in (*ESTIMATED, *WORKED_OUT):
            self.__dict__.pop(f"{name}_", None)

    @classmethod
    def _opens(cls, meaning: Meaning) -> bool:
        """Whether a forest with this meaning is one of this estimator."""
        return meaning.method == cls._method.name

    def _restore(self, forest: Forest) -> None:
        """Make this a fitted estimator of an opened forest, with the estimates and feature names stored in it."""
        self._set_forest(forest)
        estimates = Estimates.of(forest.provenance)
        for name in ESTIMATED:
            if getattr(estimates, name) is not None:
                setattr(self, f"{name}_", getattr(estimates, name))
        self.n_features_in_ = forest.n_features
        self._set_schema(forest.schema)

    def _room(self) -> WorkerRoom:
        """The memory in which trees grow: of this process, or of a worker of the cluster."""
        if self.client is None:
            return WorkerRoom(unused_bytes(), n_threads(self.n_jobs))
        cluster = self._calls()
        assert cluster is not None  # noqa: S101  (there is a client)
        return WorkerRoom(cluster.memory_limit or unused_bytes(), cluster.threads)

    def _checked_params(self, truth: object) -> dict[str, Value]:
        """Return the method's parameters as plain values; raises InputError for all bad ones at once, or no truth."""
        if truth is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        plain = {name: _plain(value) for name, value in self._params().items()}
        complete(self._parameters, plain)
        params = {row.name: plain.get(row.name, row.default) for row in self._method.parameters}
        check_together(params)  # before features are screened
        return params

    def _params(self) -> dict[str, Value]:
        """The parameters as the user has set them; subclasses replace an array or a function by a word."""
        return {row.name: getattr(self, row.name) for row in self._parameters}

    def _grow(
        self,
        rows: RowKind,
        matrix: np.ndarray | SparseSource | SparseFeatures,
        truth: Truth | None,
        params: dict[str, Value],
        weights: Floats | None = None,
        sample_weight: Floats | None = None,
    ) -> None:
        """Grow the forest from a matrix and its truth, or without a truth from the matrix alone.

        ``weights`` are those of features, ``sample_weight`` those of rows, from `_read_weights`.
        """
        truth = truth or Truth(TruthKind.NOTHING, np.empty((matrix.shape[0], 0)))
        of_rows = self._integer_weights(params, truth, sample_weight)
        self._grow_from(Data(rows, matrix, truth, weights, sample_weights=of_rows), params, self._seed())

    @staticmethod
    def _warn_of_order(X: object, **by_row: object) -> None:
        """Warn of values for each row, by their names, whose rows are named as those of ``X``, but in another order."""
        for name, values in by_row.items():
            held = getattr(values, "adjacency", values)
            if warning := told_of_row_order(X, held, name) or told_of_addresses(X, values):
                warn_caller(f"DF005 {warning}")

    @staticmethod
    def _read_weights(weights: VectorLike | None, n: int, what: Weighed = OF_ROWS) -> Floats | None:
        """Read the weights of ``n`` rows or pairs; None: equal weights."""
        if weights is None:
            return None
        return checked_weights(unmasked(in_memory(opened_array(weights))), n, what)

    def _integer_weights(
        self, params: dict[str, Value], truth: Truth, sample_weight: Floats | None
    ) -> SampleWeights | None:
        """The weights of rows as integers; warns of those that rounding changes."""
        if sample_weight is None:
            return None
        of_truth = (truth.kind, truth.values, truth.classes)
        found = weights_of_rows(params, *of_truth, sample_weight, truth.costs is not None)
        if warning := found.told(sample_weight):
            warn_caller(warning)
        return found

    def _calls(self) -> OnDask | None:
        """The cluster that calls a function; None: it is called in this process."""
        if self.client is None:
            return None
        from distforest.jobs.on_dask import OnDask  # noqa: PLC0415  (calls in this process do without Dask)

        return OnDask(self.client)

    def _seed(self) -> int:
        """The seed of a fit: that of the forest, if trees are added to it and ``random_state`` is no integer."""
        if self.warm_start and hasattr(self, "forest_") and not isinstance(self.random_state, Integral):
            return self.forest_.meaning.seed
        return seed_of(self.random_state)

    def _grow_from(self, data: Data, params: dict[str, Value], seed: int) -> None:
        """Grow the forest, here or on the cluster; warns if it has learned nothing.

        The digest of the data is worked out beside the growth, which waits for it only if trees are to be added: what
        is compared are the data as they were read for this fit, also if their owner changes them later.
        """
        truth = (data.truth.kind, data.truth.values, None if self._are_labels_stated else data.truth.classes)
        weights = data.sample_weights if data.pairs is None else data.pair_weights
        counted = None if weights is None else weights.integers
        warn_of(Given.of(data.rows, data.matrix, truth, data.pairs, self._names(), counted))
        with ThreadPoolExecutor(1) as beside, self._told_progress() as watch:
            sha256 = beside.submit(data.digest)
            earlier = self._earlier(sha256)
            warnings = self._grown_with_warnings(data, params, seed, watch, earlier)
        self.forest_ = replace(self.forest_, provenance={**self.forest_.provenance, "data_sha256": sha256.result()})
        for warning in filter(None, warnings):
            warn_caller(warning)

    @contextmanager
    def _told_progress(self) -> Iterator[Watch | None]:
        """Give a watcher to the block, and report on stderr that kernels are compiled; None if ``verbose`` is 0."""
        if not self.verbose:
            yield None
            return
        with shown_progress() as watch, compiling_told(print_to_stderr):
            yield watch

    def _earlier(self, sha256: Future[str]) -> Forest | None:
        """The forest to which trees are added; None if all are grown. Raises InputError for other data."""
        if not self.warm_start or not hasattr(self, "forest_"):
            return None
        if self.forest_.provenance.get("data_sha256") != sha256.result():
            expected = "warm_start=True adds trees to a forest of the same data"
            raise InputError(f"{expected}, and the last fit had others, or does not tell which; set it to False")
        if self.forest_.n_trees == getattr(self, "n_estimators", None):
            warn_caller(f"n_estimators={self.forest_.n_trees} trees are there already, so warm_start=True adds none")
        return self.forest_

    def _score_out_of_bag(self, y: Any) -> None:  # noqa: ARG002  (for what has a score)
        """Work the score out of bag out of the forest and of what it was taught; raises InputError if there is none."""
        raise InputError(f"y: no score out of bag can be worked out for {type(self).__name__}; leave it out")

    def _check_n_taught(self, truth: Truth) -> None:
        """Refuse a ground truth of more or fewer rows than the training had; raises InputError."""
        if len(truth.values) != self.forest_.n_training:
            wanted = counted(self.forest_.n_training, "training row")
            raise InputError(f"y: what {wanted} were taught was expected, found {len(truth.values):,}")

    def _chosen_cut(
        self,
        data: Data,  # noqa: ARG002  (for what has a choice)
        params: dict[str, Value],  # noqa: ARG002
        seed: int,  # noqa: ARG002
        grown: Callable[[Problem], Forest],  # noqa: ARG002
    ) -> ChosenCut | None:
        """Where candidates are cut, as trial forests that ``grown`` grows choose; None: as the parameters say."""
        return None

    def _grown_with_warnings(
        self, data: Data, params: dict[str, Value], seed: int, watch: Watch | None, earlier: Forest | None
    ) -> list[str]:
        """Grow the forest, here or on the cluster; returns warnings, of which some may be empty."""
        if self.client is None:
            threads = n_threads(self.n_jobs)
            if params.get("feature_weights") == "dependence":
                data = screened_data(data, seed, Here(threads), watch)
            chosen = self._chosen_cut(data, params, seed, lambda own: fit_here(own, threads, watch))
            budget = budget_of(self._method.name, data, params, self._room())
            passes = None if budget is None else Passes(OF_HOST.path / "passes", budget)
            bound = problem(self._method, data, params if chosen is None else chosen.into(params), seed, passes)
            forest = fit_here(bound, threads, watch, earlier)
            told = chosen.entry if chosen else {}
            self._set_forest(replace(forest, provenance={**forest.provenance, **told}))
            sizes = self.forest_.table.tree_size
            are_roots = 2 * n_roots_of(sizes) > self.forest_.n_trees
            of_roots = told_of_roots(bound, Roots.of_forest(self.forest_)) if are_roots else ""
            warnings = [of_roots, Stayed.of(sizes, self.forest_.leaves).told(bound.meaning.leaf)]
        else:
            with tempfile.TemporaryDirectory(prefix="distforest-") as place:
                from distforest.jobs.on_dask import OnDask  # noqa: PLC0415  (a fit in threads does without Dask)

                job = Folder(f"{place}/job")
                inputs = from_data(data, self._method.name, params, seed, job.address)
                inputs = replace(inputs, rows_budget=budget_of(self._method.name, data, params, self._room()))
                options = Options(watch=watch)
                if earlier is not None:
                    options = replace(options, earlier=f"{place}/earlier.zarr")
                    save(earlier, f"{place}/earlier.zarr")
                done = fit(inputs, f"{place}/forest.zarr", job, OnDask(self.client), options)
                self._set_forest(open_forest(done.address))
                warnings = list(done.warnings)
        return warnings


def _plain(value: Any) -> Any:
    """A parameter in Python's own types; the labels of a table as strings."""
    if isinstance(value, Mapping):
        return {key_of(label): _plain(weight) for label, weight in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def n_threads(n_jobs: object) -> int:
    """Number of threads that ``n_jobs`` stands for, as in scikit-learn: None is 1, -1 all cores, -2 all but one."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise InputError(f"n_jobs must be None or an integer other than 0, found {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


def seed_of(random_state: object) -> int:
    """The seed that ``random_state`` stands for: an integer itself, or one drawn from a RandomState."""
    if not isinstance(random_state, Integral):
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    if not 0 <= int(random_state) < 2**63:
        raise InputError(f"random_state must be in [0, 2^63), a RandomState or None, found {random_state!r}")
    return int(random_state)


def have_estimates(count: Ints, things: str) -> NDArray[np.bool_]:
    """Which ``things`` have an out-of-bag estimate, shape (n,): those that ``count`` > 0 trees did not draw.

    Warns if some have none.

    Raises
    ------
    InputError
        None of them has an estimate.
    """
    known = count > 0
    if not known.any():
        cure = "set bootstrap=True or a smaller max_samples, or grow more trees"
        raise InputError(f"oob_score: no tree left any of the {things} out of its sample; {cure}")
    if not known.all():
        n_unknown = int((~known).sum())
        text = f"{n_unknown:,} of {len(known):,} {things} {'has' if n_unknown == 1 else 'have'} no out-of-bag estimate"
        warn_caller(f"{text}; grow more trees")
    return known


def warn_of_mean(score: float, of: str = "") -> None:
    """Warn of an out-of-bag coefficient of determination that is no better than that of the mean, 0."""
    if score <= 0.0:
        found = f"R2{f' of the {of}' if of else ''} is {score:.2f} out of bag"
        warn_caller(f"DF012 oob_score: {found}, no better than always answering the mean (0)")


def r_squared(true: Floats, predicted: Floats, weights: Floats | None = None) -> float:
    """Coefficient of determination of predicted values, which count by their weights if there are any."""
    from sklearn.metrics import r2_score  # noqa: PLC0415  (a tenth of a second that a fit does without)

    return float(r2_score(true, predicted, sample_weight=weights))


def print_to_stderr(text: str) -> None:
    """Print a line on stderr, under the name of the package."""
    print(f"distforest: {text}", file=sys.stderr, flush=True)
