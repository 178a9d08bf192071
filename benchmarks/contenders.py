"""Contenders: what is fitted and asked where ours and the peers are compared, one function for each method.

`peers.py` runs them in a process of the Python that has the package: the peers' or our own. A contender gets arrays and
fits; it returns functions that answer. The clock is here, quality is computed by the process that asks, in one way for
all. Parameters are the packages' defaults but for the seed, the number of threads, and what the comparison states.
"""

from __future__ import annotations

import functools
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Answers = Mapping[str, Callable[[], Array]]

N_NEAREST = 10


@dataclass(frozen=True)
class Run:
    """Rows to learn from with their labels, rows that are asked about, and how to fit."""

    X: Array
    y: Array
    X_test: Array
    seed: int
    threads: int
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def seeded(self) -> dict[str, Any]:
        """The parameters as most packages call them."""
        return {"random_state": self.seed, "n_jobs": self.threads, **self.params}


# --- ours -------------------------------------------------------------------------------------------------


def smerf(run: Run) -> Answers:
    """SMERF on labels."""
    from distforest import SMERF  # noqa: PLC0415  (in our environment only, as all below is in its own)

    forest = SMERF(**run.seeded).fit(run.X, run.y)
    return {
        "labels": lambda: forest.predict(run.X_test),
        "distance": lambda: forest.distance(run.X_test, run.X),
        "nearest": lambda: forest.kneighbors(run.X_test, N_NEAREST, return_distance=False),
    }


def rfd(run: Run) -> Answers:
    """RFD on labels."""
    from distforest import RFD  # noqa: PLC0415

    forest = RFD(**run.seeded).fit(run.X, run.y)
    return {"distance": lambda: forest.distance(run.X_test, run.X)}


def simforest(run: Run) -> Answers:
    """SimForest on a similarity of the features."""
    from distforest import SimForestClassifier  # noqa: PLC0415

    forest = SimForestClassifier(**run.seeded).fit(run.X, run.y)
    return {"labels": lambda: forest.predict(run.X_test)}


def urerf(run: Run) -> Answers:
    """URerF, whose own distance is clustered."""
    from simulations import PAPER_RULE  # noqa: PLC0415

    from distforest import URerF  # noqa: PLC0415

    params = dict(run.seeded)
    rule = PAPER_RULE if params.pop("paper", False) else {}
    forest = URerF(**{**rule, **params}).fit(run.X)
    apart = functools.cache(forest.distance)
    return {
        "apart": apart,
        "clusters": lambda: clusters_of(apart(), "precomputed", run),
        "distance": lambda: forest.distance(run.X_test, run.X),
        "nearest": lambda: forest.kneighbors(run.X_test, N_NEAREST, return_distance=False),
    }


def simforest_dtw(run: Run) -> Answers:
    """SimForest on dynamic time warping, in a window that is a share of the length, or in none."""
    from dtaidistance import dtw  # noqa: PLC0415

    from distforest import SimForestClassifier  # noqa: PLC0415

    params = dict(run.seeded)
    share = params.pop("window", None)
    warp: dict[str, Any] = {"parallel": False}
    if share is not None:
        warp["window"] = max(1, int(share * run.X.shape[1]))
    forest = SimForestClassifier(kind="distance", **params).fit(dtw.distance_matrix_fast(run.X, **warp), run.y)

    def labels() -> Array:
        n, both = len(run.X), np.concatenate([run.X, run.X_test])
        block = ((0, n), (n, len(both)))
        return forest.predict(dtw.distance_matrix_fast(both, block=block, **warp)[:n, n:].T.copy())

    return {"labels": labels}


# --- scikit-learn -----------------------------------------------------------------------------------------


def scikit_learn(run: Run) -> Answers:
    """A classifier of scikit-learn's ensembles."""
    from sklearn import ensemble  # noqa: PLC0415

    params = dict(run.params)
    kind = getattr(ensemble, params.pop("kind"))
    own: dict[str, Any] = {"random_state": run.seed, **params}
    if kind is ensemble.RandomForestClassifier:
        own["n_jobs"] = run.threads
    fitted = kind(**own).fit(run.X, run.y)
    return {"labels": lambda: fitted.predict(run.X_test)}


def euclidean(run: Run) -> Answers:
    """Nothing is learned: Euclidean distance, scikit-learn's neighbours, and its HDBSCAN on the rows."""
    from sklearn.metrics import pairwise_distances  # noqa: PLC0415
    from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415

    search = NearestNeighbors(n_neighbors=N_NEAREST, n_jobs=run.threads).fit(run.X)
    return {
        "apart": lambda: pairwise_distances(run.X),
        "clusters": lambda: clusters_of(run.X, "euclidean", run),
        "distance": lambda: pairwise_distances(run.X_test, run.X),
        "nearest": lambda: search.kneighbors(run.X_test, return_distance=False),
    }


def clusters_of(rows: Array, metric: str, run: Run) -> Array:
    """HDBSCAN's cluster of each row, -1 of those that it leaves out; scikit-learn's, with its defaults."""
    from sklearn.cluster import HDBSCAN  # noqa: PLC0415

    return HDBSCAN(metric=metric, n_jobs=run.threads, copy=True).fit_predict(rows)


# --- peers ------------------------------------------------------------------------------------------------


def learned_metric(metric: str, X: Array, y: Array, **params: Any) -> Any:
    """A fitted metric of metric-learn, by the name of its class."""
    import metric_learn  # noqa: PLC0415

    return getattr(metric_learn, metric)(**params).fit(X, y)


def metric_learn(run: Run) -> Answers:
    """Euclidean distance after the linear map that metric-learn finds."""
    from sklearn.metrics import pairwise_distances  # noqa: PLC0415

    params = dict(run.params)
    fitted = learned_metric(params.pop("metric"), run.X, run.y, random_state=run.seed, **params)
    return {"distance": lambda: pairwise_distances(fitted.transform(run.X_test), fitted.transform(run.X))}


def umap(run: Run) -> Answers:
    """Euclidean distance in UMAP's map, and HDBSCAN on the map."""
    from sklearn.metrics import pairwise_distances  # noqa: PLC0415
    from umap import UMAP  # noqa: PLC0415

    placed = UMAP(random_state=run.seed, n_jobs=1, **run.params).fit_transform(run.X)  # with a seed it takes no more
    return {
        "apart": lambda: pairwise_distances(placed),
        "clusters": lambda: clusters_of(placed, "euclidean", run),
    }


def pynndescent(run: Run) -> Answers:
    """PyNNDescent's approximate neighbours under Euclidean distance."""
    from pynndescent import NNDescent  # noqa: PLC0415
    from sklearn.metrics import pairwise_distances  # noqa: PLC0415

    index = NNDescent(run.X, **run.seeded)
    index.prepare()
    return {
        "nearest": lambda: index.query(run.X_test, k=N_NEAREST)[0],
        "distance": lambda: pairwise_distances(run.X_test, run.X),
    }


def aeon(run: Run) -> Answers:
    """A classifier of series by distances of aeon's."""
    from aeon.classification import distance_based  # noqa: PLC0415

    params = dict(run.params)
    kind = getattr(distance_based, params.pop("kind"))
    if kind is distance_based.ProximityForest:
        params["random_state"] = run.seed
    fitted = kind(n_jobs=run.threads, **params).fit(run.X[:, None, :], run.y)
    return {"labels": lambda: fitted.predict(run.X_test[:, None, :])}


def treeple(run: Run) -> Answers:
    """An unsupervised forest of treeple's, whose proximity is clustered as ours is; its own fit clusters, too."""
    from treeple import ensemble  # noqa: PLC0415

    params = dict(run.seeded)
    forest = getattr(ensemble, params.pop("kind"))(**params).fit(run.X)

    @functools.cache
    def apart() -> Array:
        near = np.asarray(forest.compute_similarity_matrix(run.X), dtype=np.float64)
        return 1.0 - near / near.max()

    return {"apart": apart, "clusters": lambda: clusters_of(apart(), "precomputed", run)}


def ydf(run: Run) -> Answers:
    """A learner of YDF's."""
    import ydf as package  # noqa: PLC0415

    package.verbose(0)
    params = dict(run.params)
    learner = getattr(package, params.pop("learner"))(
        label="label", num_threads=run.threads, random_seed=run.seed, **params
    )
    columns, columns_test = ({f"column_{i}": X[:, i] for i in range(X.shape[1])} for X in (run.X, run.X_test))
    model = learner.train({**columns, "label": run.y})
    classes = np.array(model.label_classes())
    both = (
        (columns_test, len(run.X_test)),
        (columns, len(run.X)),
    )  # a distance wants the label's column, and reads none
    return {
        "labels": lambda: model.predict_class(columns_test).astype(classes.dtype).astype(np.int64),
        "distance": lambda: model.distance(*({**own, "label": np.repeat(run.y[:1], n)} for own, n in both)),
    }


CONTENDERS: dict[str, Callable[[Run], Answers]] = {
    function.__name__: function
    for function in (
        *(smerf, rfd, simforest, urerf, simforest_dtw),
        *(scikit_learn, euclidean, metric_learn, umap, pynndescent, aeon, treeple, ydf),
    )
}


# --- the clock --------------------------------------------------------------------------------------------


def contend(
    contender: str, given: str, found: str, asked: list[str], checked: list[str], how: dict[str, Any]
) -> dict[str, Any]:
    """Fit and answer: seconds of both, and the most memory that this process held meanwhile.

    Parameters
    ----------
    contender
        Its name.
    given, found
        Files (npz): the arrays of `Run` and, written here, an array for each answer.
    asked, checked
        Answers that are timed, and those that come after the clock has stopped.
    how
        The other fields of `Run`.

    Returns
    -------
    dict
        ``fit_seconds``, ``answer_seconds`` and ``peak_bytes``; or ``failed``, which says what the package raised.
    """
    warnings.simplefilter("ignore")  # of the peers' use of other packages
    with np.load(given) as file:
        run = Run(**{name: file[name] for name in file.files}, **how)
    forget_peak()
    try:
        start = time.perf_counter()
        answers = CONTENDERS[contender](run)
        fitted = time.perf_counter()
        arrays = {name: np.asarray(answers[name]()) for name in asked}
        answered, peak = time.perf_counter(), peak_bytes()
        arrays |= {name: np.asarray(answers[name]()) for name in checked}
    except Exception as error:  # noqa: BLE001  (whatever a peer raises is told in the table)
        return {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
    np.savez(found, **arrays)
    return {"fit_seconds": fitted - start, "answer_seconds": answered - fitted, "peak_bytes": peak}


def forget_peak() -> None:
    """Let `peak_bytes` begin again at what the process holds now."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """The most memory that this process has held, as Linux tells it."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
