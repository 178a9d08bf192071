"""Trials: write simulated data to a Zarr group, and score an answer on disk by the truth of such data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.arguments import whole
from distforest.errors import InputError
from distforest.evaluation.geodesics import (
    Hits,
    neighbor_hits,
    proximity_hits,
    relevant_by_component,
    relevant_by_distance,
)
from distforest.evaluation.manifolds import Manifold, manifold_helix, manifold_line, manifold_mixture, manifold_sphere
from distforest.evaluation.simulate import Simulation, smerf_bilinear, smerf_radial, smerf_regression
from distforest.forest import scoring
from distforest.forest.sealed.artifact import open_forest
from distforest.sources.arrays import open_array, write_array
from distforest.stores.folder import Folder
from distforest.stores.groups import attributes_of, check_target, destination, seal_group
from distforest.stores.outputs import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from distforest.arguments import Floats
    from distforest.forest.forest import Forest

    Ints = NDArray[np.int64]

MANIFOLDS: dict[str, Callable[..., Manifold]] = {
    "line": manifold_line,
    "helix": manifold_helix,
    "sphere": manifold_sphere,
    "mixture": manifold_mixture,
}
DISTANCES_OF_SETTINGS: dict[str, Callable[..., Simulation]] = {
    "smerf_regression": smerf_regression,
    "smerf_bilinear": smerf_bilinear,
    "smerf_radial": smerf_radial,
}
"""The settings of `simulate`: manifolds in noise, and points with a matrix of distances."""

JUDGED_ANSWERS = ("proximity", "distance", "indices")
"""Names of the arrays that can be scored: of proximities, of distances, of nearest rows."""

PAIRS_JUDGED_AT_ONCE = 1 << 22
"""Approximate number of pairs of a query and a point that are scored at once."""


@dataclass(frozen=True)
class Simulated:
    """A group that `simulate` wrote: its address, its setting with arguments, and dtype and shape of each array."""

    address: str
    setting: str
    arguments: dict[str, object]
    arrays: dict[str, tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Score:
    """Means over the queries at one k; ``recall`` is None if nothing is relevant to any query."""

    k: int
    precision: float
    recall: float | None
    chance: float


@dataclass(frozen=True)
class Evaluated:
    """The scores of an answer by a truth."""

    answer: str
    kind: str
    truth: str
    n_points: int
    n_queries: int
    scores: tuple[Score, ...]


# --- simulate ---------------------------------------------------------------------------------------------


def simulate(setting: str, output: str, arguments: Mapping[str, object], overwrite: bool = False) -> Simulated:
    """Write simulated points and their truth as a new Zarr group.

    A manifold gives the arrays ``X``, ``latent`` and, if it is in pieces, ``labels``; a setting of SMERF gives ``X``,
    ``Z`` and ``y``. The group's attributes hold the setting and its arguments.

    Parameters
    ----------
    setting
        A key of `MANIFOLDS` or `DISTANCES_OF_SETTINGS`.
    output
        Path or URL of the new group; a path appears only when the group is complete.
    arguments
        Arguments of the setting's function in `distforest.evaluation.simulate`, by name.
    overwrite
        Whether a group at ``output`` may be replaced.

    Raises
    ------
    InputError
        The setting is unknown, an argument is out of range or not one of the setting's, or there is an output already.
    """
    settings: dict[str, Callable[..., Manifold | Simulation]] = {**MANIFOLDS, **DISTANCES_OF_SETTINGS}
    if setting not in settings:
        raise InputError(f"setting must be one of {', '.join(settings)}, found {setting!r}")
    names = {"n", "random_state"} | ({"p"} if setting in DISTANCES_OF_SETTINGS else _NOISE)
    strange = sorted(set(arguments) - names)
    if strange:
        takes, found = (", ".join(f"`{name}`" for name in some) for some in (sorted(names), strange))
        raise InputError(f"{setting} takes {takes}, found {found}; leave it out")
    check_target(output, overwrite)
    arrays = _arrays(settings[setting](**arguments))
    with destination(output, overwrite, f"the simulation of {setting}") as group:
        for name, values in arrays.items():
            write_array(group, name, values.shape, values.dtype, [values])
        attributes = {
            "type": "simulation",
            "version": 1,
            "arrays": list(arrays),
            "setting": setting,
            "asked": dict(arguments),
        }
        seal_group(group, {"distforest": attributes})
    shapes = {name: (values.dtype.name, values.shape) for name, values in arrays.items()}
    return Simulated(output, setting, dict(arguments), shapes)


_NOISE = {"noise_dimensions", "noise", "noise_variance", "rescale", "shuffle"}


def _arrays(points: Manifold | Simulation) -> dict[str, np.ndarray]:
    if not isinstance(points, Manifold):
        return {"X": points.X, "Z": points.Z, "y": points.y}
    labels = {} if points.labels is None else {"labels": points.labels}
    return {"X": points.X, "latent": points.latent, **labels}


# --- evaluate ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Truth:
    """Which of n points are relevant to queries: a function of k and the row numbers of the queries."""

    n_points: int
    relevant: Callable[[int, Ints], Floats]


@dataclass(frozen=True)
class _Answer:
    """What queries retrieve: a function of their row numbers that returns proximities, or lists of nearest rows."""

    kind: str
    shape: tuple[int, ...]
    read: Callable[[Ints], np.ndarray]


def evaluate(
    answer: str, truth: str, ks: Sequence[int] = (50,), n_queries: int | None = None, seed: int = 0
) -> Evaluated:
    """Compute geodesic precision and recall of an answer on disk.

    Parameters
    ----------
    answer
        Address of a group in which batch scoring wrote distances, proximities or neighbours of the points; of an array
        with one of the names in `JUDGED_ANSWERS`; or of a sealed forest, whose distances of the rows ``X`` next to the
        truth are scored.
    truth
        Address of a group of `simulate`; of an array of distances, shape (n, n); or of an array of labels, shape (n,),
        where points of equal labels make a component.
    ks
        Numbers of points that a query retrieves. On a manifold in one piece as many are relevant.
    n_queries
        Number of points, drawn at random, that are queries; all by default.
    seed
        Seed for drawing them.

    Raises
    ------
    InputError
        The answer or the truth is none of these, they do not match, or a k is out of range.
    ArtifactError
        The forest is damaged.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = simulate("line", f"{folder}/line.zarr", {"n": 30, "random_state": 0})
    ...     known = np.asarray(open_array(f"{folder}/line.zarr/latent")[...])
    ...     _ = write_array(f"{folder}/found.zarr", "distance", (30, 30), np.dtype(float), [abs(known - known.T)])
    ...     evaluate(f"{folder}/found.zarr/distance", f"{folder}/line.zarr", [4]).scores[0].precision > 0.9
    True
    """
    known = _truth(truth)
    n = known.n_points
    if n < 2:
        raise InputError(f"{truth}: a query and a point beside it are needed, found {counted(n, 'point')}")
    for k in ks:
        if whole("k", k, 1) > n - 1:
            raise InputError(f"k must be at most {n - 1}, the number of points beside the query, found {k}")
    retrieved = _answer(answer, truth)
    if retrieved.shape[0] != n or (retrieved.kind != "indices" and retrieved.shape[1] != n):
        raise InputError(
            f"{answer}: answers for the {counted(n, 'point')} of {truth} were expected, found shape {retrieved.shape}"
        )
    rows = _draw_queries(n, n_queries, seed)
    blocks = _blocks(rows, max(1, PAIRS_JUDGED_AT_ONCE // n))
    hits = [_hits(retrieved, known, list(ks), block) for block in blocks]
    scores = tuple(_score(Hits.joined(parts), n) for parts in zip(*hits, strict=True))
    return Evaluated(answer, retrieved.kind, truth, n, len(rows), scores)


def _hits(answer: _Answer, truth: _Truth, ks: Sequence[int], rows: Ints) -> list[Hits]:
    """The hits of some queries, for each k."""
    values = answer.read(rows)
    hits = neighbor_hits if answer.kind == "indices" else proximity_hits
    return [hits(values, truth.relevant(k, rows), k, rows) for k in ks]


def _score(hits: Hits, n_points: int) -> Score:
    recall = None if np.isnan(hits.recall) else hits.recall
    return Score(hits.n_retrieved, hits.precision, recall, float(np.mean(hits.n_relevant)) / (n_points - 1))


def _draw_queries(n: int, n_queries: int | None, seed: int) -> Ints:
    """Draw the row numbers of the queries, ascending."""
    if n_queries is None:
        return np.arange(n)
    if not 1 <= n_queries <= n:
        raise InputError(f"n_queries must be in 1..{n}, found {n_queries}")
    return np.sort(np.random.default_rng(seed).choice(n, n_queries, replace=False))


def _blocks(rows: Ints, size: int) -> Iterator[Ints]:
    for first in range(0, len(rows), size):
        yield rows[first : first + size]


def _truth(address: str) -> _Truth:
    attributes = attributes_of(address).get("distforest")
    if isinstance(attributes, dict) and attributes.get("type") == "simulation":
        setting = str(attributes.get("setting"))
        if setting in DISTANCES_OF_SETTINGS:
            return _truth(f"{address.rstrip('/')}/Z")
        if setting not in MANIFOLDS:
            raise InputError(f"{address}: a simulation of {', '.join(MANIFOLDS)} was expected, found {setting!r}")
        latent = np.asarray(open_array(f"{address.rstrip('/')}/latent")[...])
        if latent.dtype != np.float64 or latent.ndim != 2 or latent.shape[1] != (2 if setting == "sphere" else 1):
            raise InputError(f"{address}/latent: coordinates of a {setting} were expected, found shape {latent.shape}")
        return _Truth(len(latent), Manifold(np.empty((len(latent), 0), np.float32), latent, setting).relevant)
    array = open_array(address)
    if len(array.shape) == 1:
        labels = np.asarray(array[...])
        return _Truth(len(labels), lambda _k, rows: relevant_by_component(labels, rows))
    if len(array.shape) != 2 or array.shape[0] != array.shape[1]:
        raise InputError(f"{address}: distances (n, n) or labels (n,) were expected, found shape {array.shape}")
    return _Truth(array.shape[0], lambda k, rows: relevant_by_distance(array.oindex[rows], k, rows))


def _answer(address: str, truth: str) -> _Answer:
    if _is_forest(address):
        return _answer_of(open_forest(address), f"{truth.rstrip('/')}/X")
    attributes = attributes_of(address).get("distforest")
    name = address.rstrip("/").rsplit("/", 1)[-1]
    if isinstance(attributes, dict):
        kinds = {"distance": "distance", "proximity": "proximity", "neighbors": "indices"}
        name = kinds.get(str(attributes.get("answer")), "")
        if not name:
            raise InputError(
                f"{address}: an answer of {', '.join(kinds)} was expected, found {attributes.get('answer')!r}; "
                "write one with `distforest score --answer`"
            )
        address = f"{address.rstrip('/')}/{name}"
    array = open_array(address)
    if name not in JUDGED_ANSWERS:
        raise InputError(f"{address}: an array named {', '.join(JUDGED_ANSWERS)} was expected, found {name!r}")
    if len(array.shape) != 2:
        raise InputError(f"{address}: a row of answers for each point was expected, found shape {array.shape}")
    if name == "distance":
        return _Answer(name, array.shape, lambda rows: -np.asarray(array.oindex[rows], np.float64))
    return _Answer(name, array.shape, lambda rows: np.asarray(array.oindex[rows]))


def _is_forest(address: str) -> bool:
    """Whether there is a sealed forest at an address; an address out of reach fails later, as that of an array."""
    try:
        return Folder(address).exists(MANIFEST)
    except (OSError, ImportError, ValueError):
        return False


def _answer_of(forest: Forest, features: str) -> _Answer:
    """A forest's answer for the rows at an address: the negative of their distances."""
    nodes = scoring.apply(forest, forest.source(np.asarray(open_array(features)[...])))
    n = nodes.shape[1]
    return _Answer(
        "forest", (n, n), lambda rows: -scoring.distance(forest, np.ascontiguousarray(nodes[:, rows]), nodes)
    )
