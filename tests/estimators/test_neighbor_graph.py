"""The graph of neighbours: the nearest by all distances, in the form of scikit-learn's."""

from __future__ import annotations

import pickle

import dask.array
import numpy as np
import pytest

from distforest import RFD, SMERF, URerF
from distforest.errors import InputError
from tests import samples
from tests.messages import naming

X, NEW = samples.features(), samples.queries("labels", 9)


@pytest.fixture(scope="module", params=["SMERF", "URerF", "RFD"])
def forest(request: pytest.FixtureRequest) -> SMERF | URerF | RFD:
    if request.param == "URerF":
        return URerF(5, min_samples_split=6, random_state=0).fit(X)
    return {"SMERF": SMERF, "RFD": RFD}[request.param](5, random_state=0).fit(X, samples.labels())


@pytest.mark.parametrize("mode", ["connectivity", "distance"])
def test_a_graph_of_the_training_rows_has_the_nearest_others(forest: SMERF | URerF | RFD, mode: str) -> None:
    graph = forest.kneighbors_graph(n_neighbors=4, mode=mode)
    distances, indices = forest.kneighbors(n_neighbors=4)
    assert graph.shape == (36, 36)
    assert graph.indices.dtype == np.int32
    assert graph.indices.tolist() == indices.reshape(-1).tolist()
    assert graph.data.tolist() == ([1.0] * 144 if mode == "connectivity" else distances.reshape(-1).tolist())
    if mode == "distance":
        apart = forest.distance()
        np.fill_diagonal(apart, np.inf)
        order = np.argsort(apart, axis=1, kind="stable")[:, :4]
        assert indices.tolist() == order.tolist()
        np.testing.assert_array_equal(distances, np.take_along_axis(apart, order, axis=1))


def test_a_graph_of_new_rows_leads_to_training_rows(forest: SMERF | URerF | RFD) -> None:
    graph = forest.kneighbors_graph(NEW, 3, "distance")
    distances, indices = forest.kneighbors(NEW, 3)
    assert graph.shape == (9, 36)
    np.testing.assert_array_equal(np.take_along_axis(graph.toarray(), indices, axis=1), distances)
    blocks = forest.kneighbors_graph(dask.array.from_array(NEW, chunks=(4, -1)), 3, "distance")
    assert (blocks != graph).nnz == 0


def test_what_no_graph_can_be_is_refused(forest: SMERF | URerF | RFD) -> None:
    with pytest.raises(InputError, match=naming("mode", "'connectivity'", "'distance'", "'weights'")):
        forest.kneighbors_graph(NEW, 3, "weights")
    for n_neighbors in (0, 37, 2.5, True):
        with pytest.raises(InputError, match=naming("n_neighbors", "1..36", n_neighbors)):
            forest.kneighbors_graph(NEW, n_neighbors)  # type: ignore[arg-type]


def test_what_a_forest_keeps_for_its_next_answers_is_not_pickled(forest: SMERF | URerF | RFD) -> None:
    before, found = len(pickle.dumps(forest)), forest.kneighbors(NEW)
    assert len(pickle.dumps(forest)) <= before
    for own, again in zip(found, pickle.loads(pickle.dumps(forest)).kneighbors(NEW), strict=True):
        assert own.tobytes() == again.tobytes()
