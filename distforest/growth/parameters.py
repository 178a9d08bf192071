"""Parameters of the methods: names, types, ranges and defaults, in one place for estimators, specs and docs."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from distforest.errors import InputError
from distforest.forest.chosen_cut import BEST, CUTS, EXEMPLARS
from distforest.forest.leaf_kinds import NEAREST, SHARE
from distforest.forest.missing import RULES
from distforest.forest.pairs.pair_leaves import AGGREGATIONS, DEEPEST_CELL, VOTINGS
from distforest.sources.filled import ROW_MEAN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from distforest.growth.cuts.search import Limits

BALANCES = ("points", "classes", "pairs")
"""Rules for drawing must-link and cannot-link pairs from labels."""

FRESH, KEPT = "fresh", "kept"
"""Ways in which a node draws its pairs of objects, see `distforest.growth.draws.object_pairs`."""

AUTO = "auto"
"""Value for the cut, of `CUTS`, that a trial chooses: see `distforest.growth.cuts.trial_cuts`."""

LEAST = math.ulp(0.0)
"""Least number above 0."""

SHARE_OF_ALL = (LEAST, 1.0)
"""Range of a share: above 0, since something must be drawn."""

SAID = {"n_trees": "n_estimators", "num_trees": "n_estimators", "ntree": "n_estimators", "mtry": "max_features"}
"""Names in other packages of parameters that have a different name here."""

Value = int | float | bool | str | None | Mapping[str, float]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a method."""

    # name, default, text: its name, its default, and a sentence that describes it
    name: str
    default: Value
    text: str
    # integer, real: closed ranges of the allowed integers and real numbers; None if that kind of number is not allowed
    integer: tuple[float, float] | None = None
    real: tuple[float, float] | None = None
    words: tuple[bool | str | None, ...] = ()  # the strings, None, True and False that are allowed beside numbers
    table: bool = False  # whether a table of positive numbers by label is allowed
    later: bool = False  # whether forests were grown before the parameter existed, see `recorded_parameters`
    # whether a `Lazy` function is allowed, which the estimator reads before it checks parameters
    lazy: bool = False

    def accepts(self, value: object) -> bool:
        """Return whether ``value`` is allowed."""
        if isinstance(value, (bool, str)) or value is None:
            return any(value is word or (isinstance(value, str) and value == word) for word in self.words)
        if isinstance(value, Mapping):
            return self.table and all(isinstance(name, str) and _is_positive(weight) for name, weight in value.items())
        if isinstance(value, Integral) and self.integer is not None:
            return self.integer[0] <= int(value) <= self.integer[1]
        if isinstance(value, Real) and not isinstance(value, Integral) and self.real is not None:
            return self.real[0] <= float(value) <= self.real[1]
        return False

    def allowed(self) -> str:
        """Return a text of the allowed values, for an error message."""
        kinds = []
        if self.integer is not None:
            kinds.append(f"an integer {_span(self.integer)}")
        if self.real is not None:
            kinds.append(f"a real number {_span(self.real)}")
        kinds += [repr(word) for word in self.words]
        if self.table:
            kinds.append("a table of finite positive numbers by label")
        return " or ".join(kinds)

    def fault(self, value: object) -> str | None:
        """Return why ``value`` is not allowed, or None if it is."""
        if self.accepts(value):
            return None
        cure = "; give the function as Lazy(pairwise(f))" if self.lazy and callable(value) else ""
        return f"{self.name} must be {self.allowed()}, found {value!r}{cure}"


def _is_positive(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return 0.0 < float(value) < math.inf
    except OverflowError:  # an integer beyond float64
        return False


def _span(limits: tuple[float, float]) -> str:
    low, high = limits
    if low == LEAST:
        return f"in (0, {high:g}]"
    return f">= {low}" if math.isinf(high) else f"in [{low}, {high}]"


def faults(parameters: Iterable[Parameter], given: Mapping[str, object]) -> dict[str, str]:
    """Return all faults of the parameters ``given``, by name: unknown names (with the nearest known) and bad values."""
    known = {parameter.name: parameter for parameter in parameters}
    fault_of = {}
    for name, value in given.items():
        if name in known:
            fault = known[name].fault(value)
        else:
            near = [SAID[name]] if SAID.get(name) in known else difflib.get_close_matches(name, known, n=1)
            fault = f"unknown parameter {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
        if fault:
            fault_of[name] = fault
    return fault_of


def complete(parameters: Iterable[Parameter], given: Mapping[str, Value]) -> dict[str, Value]:
    """Return all parameters: those that are ``given``, and the defaults of the others.

    Raises
    ------
    InputError
        A name is unknown, or a value is out of range. The message lists all faults.

    Examples
    --------
    >>> depth = Parameter("max_depth", None, "deepest level", integer=(1, math.inf), words=(None,))
    >>> complete([depth], {"max_depth": 3})
    {'max_depth': 3}
    >>> complete([depth], {"max_dept": 3})
    Traceback (most recent call last):
    distforest.errors.InputError: unknown parameter 'max_dept'; did you mean 'max_depth'?
    """
    parameters = list(parameters)
    fault_of = faults(parameters, given)
    if fault_of:
        raise InputError("\n".join(fault_of.values()))
    return {p.name: given.get(p.name, p.default) for p in parameters}


def recorded_parameters(parameters: Iterable[Parameter], given: Mapping[str, Value]) -> dict[str, Value]:
    """Return the parameters that a forest records: all except later ones at defaults, so that digests do not change.

    Examples
    --------
    >>> few = Parameter("n_landmarks", None, "columns that splits read", integer=(2, 9), words=(None,), later=True)
    >>> recorded_parameters([few], {"n_landmarks": None}), recorded_parameters([few], {"n_landmarks": 4})
    ({}, {'n_landmarks': 4})
    """
    defaults = {parameter.name: parameter.default for parameter in parameters if parameter.later}
    return {name: value for name, value in given.items() if name not in defaults or value != defaults[name]}


WITHOUT_SIDES: dict[str, tuple[Value, ...]] = {
    "n_columns": (1, None),
    "on_missing": ("stop", ROW_MEAN, None),
    "criterion": (None,),
}
"""Parameters of the two sides of a pair, each with the values that exemplars allow."""


def keeps_pairs(params: Mapping[str, Value], n_measures: int = 1) -> bool:
    """Return whether a tree keeps its pairs for all its nodes: by default, if a cut reads no other columns.

    With several measures each node draws its own by default, since trees that keep a few of them are less accurate.

    Examples
    --------
    >>> plain = {"pairing": None, "n_columns": 1, "n_landmarks": None}
    >>> keeps_pairs(plain), keeps_pairs({**plain, "n_columns": 2}), keeps_pairs({**plain, "n_landmarks": 0.2})
    (True, False, False)
    """
    if params["pairing"] is not None:
        return params["pairing"] == KEPT
    return params["n_columns"] == 1 and params.get("n_landmarks") is None and n_measures == 1


def n_drawn(max_samples: float | None, there: int) -> int:
    """Return the number of draws for ``max_samples``: a number, a share of ``there`` (at least one), or all.

    Examples
    --------
    >>> [n_drawn(given, 50) for given in (20, 0.5, 0.001, None)]
    [20, 25, 1, 50]
    """
    return max(1, round(max_samples * there)) if isinstance(max_samples, float) else int(max_samples or there)


def limits_among(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that limit nodes: the arguments of `distforest.growth.cuts.search.Limits`.

    Examples
    --------
    >>> limits_among({"n_estimators": 500, "min_samples_split": 2, "min_samples_leaf": 1, "max_depth": None})
    {'min_samples_split': 2, 'min_samples_leaf': 1, 'max_depth': None}
    """
    names = ("min_samples_split", "min_samples_leaf", "max_depth")
    return {name: None if params[name] is None else int(params[name]) for name in names}


def for_two_sides(limits: Limits) -> Limits:
    """Return the same limits for nodes that have the weight of two sides; a lighter node has no cut."""
    return replace(limits, min_samples_split=max(limits.min_samples_split, 2 * limits.min_samples_leaf))


def with_defaults(parameters: Iterable[Parameter], **defaults: Value) -> tuple[Parameter, ...]:
    """Return the same parameters with other defaults."""
    return tuple(replace(p, default=defaults.get(p.name, p.default)) for p in parameters)


_COUNT = (1, math.inf)
_N_ESTIMATORS = "number of trees"
FOREST_PARAMETERS = (
    Parameter("min_samples_split", 2, "a node of less in-bag weight is a leaf", integer=(2, math.inf)),
    Parameter("max_depth", None, "deepest level of a tree; None: no limit", integer=_COUNT, words=(None,)),
    Parameter("bootstrap", True, "draw the rows of a tree with replacement", words=(True, False)),
    Parameter(
        "max_samples",
        None,
        "rows drawn for a tree: a number, a share, or None for all",
        integer=_COUNT,
        real=SHARE_OF_ALL,
        words=(None,),
    ),
)
"""Parameters of every method whose trees grow until a rule stops them."""

OOB_SCORE = Parameter("oob_score", False, "estimate the error from the out-of-bag rows", words=(True, False))

COLUMNS = (
    Parameter(
        "max_features",
        "sqrt",
        "candidate projections of a node: a number, a share of the columns, 'sqrt', 'log2', None for all, or "
        "'effective': the effective number of columns, 1 / sum of squared feature weights, to the power 3/4",
        integer=_COUNT,
        real=SHARE_OF_ALL,
        words=("sqrt", "log2", "effective", None),
    ),
    Parameter(
        "feature_combinations",
        1.0,
        "mean number of columns of a candidate; 1: single columns, more: sparse sums, below 1: a share of all columns",
        integer=(1, 10_000),
        real=(LEAST, 10_000.0),
    ),
    Parameter(
        "coefficients",
        "sign",
        "coefficients of a sum: +1 or -1, or normal, divided by the standard deviation of the column",
        words=("sign", "normal"),
    ),
    Parameter(
        "feature_weights",
        None,
        "how likely a feature is drawn; 'dependence': by how much it depends on others; 'given'; None: equally",
        words=("dependence", "given", None),
    ),
    Parameter(
        "splitter", "best", "where a candidate is split: at the best place, or at random", words=("best", "random")
    ),
)
"""Parameters of every method that splits features."""

CRITERION = Parameter(
    "criterion",
    None,
    "what splits lower: 'entropy' of labels, or the 'poisson' deviance of targets that count; None: Gini impurity of "
    "labels, the variance of targets and embeddings, the mean of distances",
    words=("entropy", "poisson", None),
    later=True,
)

SMERF_PARAMETERS = (
    Parameter("n_estimators", 500, _N_ESTIMATORS, integer=(1, 1_000_000)),
    replace(
        COLUMNS[0],
        default=AUTO,
        text=f"{COLUMNS[0].text}; 'auto': 'sqrt' for labels, all for any other ground truth",
        words=(AUTO, *COLUMNS[0].words),
    ),
    *COLUMNS[1:],
    CRITERION,
    Parameter(
        "max_bins",
        None,
        "split features only at this many quantiles; None: at every value",
        integer=(2, 256),
        words=(None,),
    ),
    Parameter("min_samples_leaf", 1, "least in-bag weight of each side of a split", integer=_COUNT),
    *FOREST_PARAMETERS,
    OOB_SCORE,
)

SIMFOREST_PARAMETERS = (
    Parameter("n_estimators", 100, _N_ESTIMATORS, integer=(1, 1_000_000)),
    Parameter("n_pairs", 4, "candidate pairs of objects of a node", integer=(1, 10_000)),
    Parameter(
        "pairing",
        None,
        "each node draws fresh pairs, or a tree keeps its pairs, so that a child draws an object of its parent's pair "
        "again, whose similarities are known; None: kept, but fresh with landmarks, features, several columns a side "
        "or several similarities",
        words=(KEPT, FRESH, None),
    ),
    Parameter(
        "n_columns",
        None,
        "columns averaged on each side of a pair; None: 4 with on_missing='mean', but 1 with another rule, landmarks, "
        "kept pairs or exemplars",
        integer=(1, 10_000),
        words=(None,),
    ),
    Parameter(
        "cut",
        BEST,
        "where the difference of an object's similarities to a pair is cut: at the best place, or at zero, so that it "
        "goes to the nearer of the two; 'exemplars': a candidate is one object of each class, and an object goes to "
        "the nearest of them; 'auto': whichever of these errs least out of bag in a trial",
        words=(*CUTS, EXEMPLARS, AUTO),
        later=True,
    ),
    Parameter(
        "n_landmarks",
        None,
        "objects that may be in a pair, drawn once for the forest: a number, or a share of all; None: all (1.0), or as "
        "many as the budget of a function pays for",
        integer=(2, math.inf),
        real=SHARE_OF_ALL,
        words=(None,),
        later=True,
    ),
    Parameter(
        "voting",
        SHARE,
        "a tree votes with the class shares or the mean target of a leaf, or for the class or target of the training "
        "object in it that is most similar",
        words=(SHARE, NEAREST),
        later=True,
    ),
    Parameter(
        "on_missing",
        None,
        "a missing similarity of a given matrix is read as the mean of the object's others; or an object that lacks a "
        "needed one stays in the node, or goes to the side of more objects, or to the side that its other similarities "
        "decide; None: 'mean' of a given matrix, else 'stop'",
        words=(*RULES, None),
    ),
    CRITERION,
    Parameter(
        "class_weight",
        None,
        "weights of the labels, 1 for those that are not named; 'balanced': inversely proportional to their rows",
        words=("balanced", None),
        table=True,
    ),
    Parameter("min_samples_leaf", 3, "least in-bag weight of each side of a split", integer=_COUNT),
    *FOREST_PARAMETERS,
    OOB_SCORE,
)

URERF_PARAMETERS = (
    Parameter("n_estimators", 100, _N_ESTIMATORS, integer=(1, 1_000_000)),
    Parameter(
        "criterion",
        "equal_bic",
        "how well two clusters describe a projection: Gaussians of one variance, of two or one, means alone, or a "
        "mixture fitted by expectation and maximisation",
        words=("equal_bic", "fast_bic", "two_means", "mclust_bic"),
    ),
    Parameter(
        "relative",
        True,
        "compare two clusters with one, so that the score does not depend on scale",
        words=(True, False),
    ),
    Parameter("n_witnesses", 3, "further features that confirm a split", integer=(0, 64)),
    *with_defaults(
        (*COLUMNS, *FOREST_PARAMETERS),
        max_features="effective",
        feature_combinations=2.0,
        coefficients="normal",
        feature_weights="dependence",
        splitter="random",
        min_samples_split=50,
        bootstrap=False,
        max_samples=0.8,
    ),
    Parameter("min_samples_leaf", 1, "least in-bag weight of each side of a split", integer=_COUNT),
)

_MAX_BINS = Parameter(
    "max_bins",
    256,
    "nodes of more than 32 pairs are split at so many quantiles of a column; None: at every value",
    integer=(2, 256),
    words=(None,),
)
_MAX_FEATURES = replace(next(p for p in COLUMNS if p.name == "max_features"), words=("sqrt", "log2", None))
_OF_COLUMNS = "candidate columns of a node: a number, a share of the columns of a pair, 'sqrt', 'log2', None for all"

RFD_PARAMETERS = (
    Parameter("n_estimators", 200, _N_ESTIMATORS, integer=(1, 1_000_000)),
    Parameter(
        "position", True, "read the middle of a pair too, not only the difference of its points", words=(True, False)
    ),
    Parameter(
        "n_constraints",
        "auto",
        "must-link pairs drawn from labels, and as many cannot-link pairs, for each class on average; 'auto': 10000, "
        "or as many as there are",
        integer=(1, 100_000_000),
        words=("auto",),
    ),
    Parameter(
        "balance",
        "points",
        "which pairs are drawn: of a point and a partner in its class or outside; the same number from all classes; or "
        "any with equal chances",
        words=BALANCES,
    ),
    Parameter(
        "voting",
        "majority",
        "a tree votes for the more frequent kind of its node, or with the share of cannot-link pairs; or all pairs of "
        "all trees' nodes vote together",
        words=VOTINGS,
    ),
    replace(_MAX_FEATURES, text=_OF_COLUMNS),
    replace(
        CRITERION,
        text="what splits lower: the entropy of the two kinds of pairs; None: Gini impurity",
        words=("entropy", None),
    ),
    _MAX_BINS,
    Parameter("min_samples_leaf", 5, "least in-bag weight of each side of a split", integer=_COUNT),
    *with_defaults(FOREST_PARAMETERS),
    Parameter(
        "resample",
        "points",
        "what a tree draws: pairs; or points, and then it learns from the pairs whose two points it drew",
        words=("pairs", "points"),
    ),
    OOB_SCORE,
)

TREERANK_PARAMETERS = (
    Parameter("n_estimators", 44, _N_ESTIMATORS, integer=(1, 1_000_000)),
    Parameter("max_depth", 15, "deepest level of a ranking tree's cells", integer=(1, DEEPEST_CELL)),
    Parameter("leafrank", "tree", "what splits a cell: a small tree, or a linear classifier", words=("tree", "linear")),
    Parameter("leafrank_depth", 15, "deepest level of the small tree that splits a cell", integer=(1, 30)),
    Parameter(
        "region",
        "diagonal",
        "what a split of a small tree reads: the difference and the middle of two points, or whether a place on a "
        "coordinate separates them",
        words=("diagonal", "square"),
    ),
    Parameter("n_pairs", 30_000, "pairs that a tree learns from", integer=(2, 2**31 - 1)),
    Parameter(
        "sampling",
        "uniform",
        "which pairs of labelled points a tree draws: any, as many similar as dissimilar, or all",
        words=("uniform", "balanced", "all"),
    ),
    Parameter(
        "max_samples",
        None,
        "points whose pairs a tree may draw, none twice: a number, a share, or None for all (0.632 of them if each of "
        "several trees would draw all pairs); if pairs are given, the pairs themselves are drawn",
        integer=_COUNT,
        real=SHARE_OF_ALL,
        words=(None,),
    ),
    replace(_MAX_FEATURES, text=_OF_COLUMNS),
    _MAX_BINS,
    Parameter("min_samples_split", 2, "a cell of fewer pairs is a leaf", integer=(2, math.inf)),
    Parameter("min_samples_leaf", 5, "fewest pairs on each side of a split", integer=_COUNT),
    Parameter(
        "optimise_fpr",
        None,
        "part only cells that have less than this share of the dissimilar pairs to their left; None: all",
        real=(0.0, 1.0),
        words=(None,),
    ),
    Parameter("aggregation", "mean", "how the ranks of the trees are combined", words=AGGREGATIONS),
)

ISOLATION_PARAMETERS = (
    Parameter("n_estimators", 100, _N_ESTIMATORS, integer=(1, 1_000_000)),
    Parameter(
        "max_samples",
        256,
        "rows drawn for a tree, none twice: a number (all if there are fewer), a share, or None for all",
        integer=_COUNT,
        real=SHARE_OF_ALL,
        words=(None,),
    ),
    Parameter(
        "contamination",
        "auto",
        "share of the training rows that are outliers; 'auto': those that score above 1/2",
        real=(0.0, 0.5),
        words=("auto",),
    ),
)
