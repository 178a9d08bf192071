"""Jobs with weights of given pairs: the forests of the estimators, told in what is sealed, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from distforest import RFD, TreeRank, load, merge
from distforest.command_line.cli import main
from distforest.errors import InputError, SpecError
from distforest.forest.sealed.artifact import open_forest, read_manifest
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.on_dask import OnDask
from distforest.jobs.preview import check_and_stage, preview
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit
from distforest.stores.folder import Folder
from tests.jobs.iris_jobs import checked_run, write_arrays
from tests.messages import naming

N = 40
RNG = np.random.default_rng(2)
X = RNG.normal(size=(N, 3))
LABELS = np.digitize(X[:, 0] + X[:, 1] ** 2, [0.0, 1.0])
PAIRS = np.stack(np.triu_indices(N, 1), axis=1)[RNG.permutation(N * (N - 1) // 2)[:300]]
SIMILAR = LABELS[PAIRS[:, 0]] == LABELS[PAIRS[:, 1]]
WHOLE = RNG.integers(0, 4, len(PAIRS)).astype(float)
PARTS = RNG.integers(1, 9, len(PAIRS)) / 4.0
POINTS = RNG.integers(0, 3, N).astype(float)
WEIGHTS = {"whole": WHOLE, "parts": PARTS}
METHODS: dict[str, Any] = {
    "rfd": RFD(6, random_state=3),
    "rfd of pairs": RFD(6, resample="pairs", max_bins=None, random_state=3),
    "treerank": TreeRank(4, n_pairs=200, max_depth=4, random_state=3),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Points, pairs of them, and weights good and bad."""
    store = str(tmp_path_factory.mktemp("store") / "points.zarr")
    bad = {"short": PARTS[:5], "wide": np.stack([PARTS, PARTS], axis=1), "zero": 0.0 * PARTS, "negative": PARTS - 1.0}
    bad |= {"complex": PARTS.astype(np.complex128), "one_kind": np.where(SIMILAR, 1.0, 0.0)}
    given = {"X": X, "y": LABELS, "pairs": PAIRS, "similar": SIMILAR, "points": POINTS}
    write_arrays(store, **given, **WEIGHTS, **bad)
    return store


def spec_of(store: str, home: Path, name: str, weights: str | None, **changed: Any) -> Spec:
    """The job of a method with the weights of this name, if any; further inputs may be named, or left out by None."""
    own = METHODS[name]
    params = {row.name: getattr(own, row.name) for row in own._parameters}
    given = {"features": "X", "pairs": "pairs", "similar": "similar", "pair_weight": weights, **changed}
    return Spec.from_dict(
        {
            "format": 1,
            "method": name.split(maxsplit=1)[0],
            "seed": 3,
            "output": f"{home}/{name.replace(' ', '-')}.zarr",
            "input": {key: f"{store}/{value}" for key, value in given.items() if value},
            "params": {key: "none" if value is None else value for key, value in params.items()},
            "run": {"scratch": f"{home}/scratch"},
        }
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*weight:distforest.errors.DistforestWarning")
@pytest.mark.parametrize("points", [None, "points"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", METHODS)
def test_a_job_grows_the_forest_of_the_estimator(
    store: str, tmp_path: Path, name: str, weights: str, points: str | None
) -> None:
    done = checked_run(spec_of(store, tmp_path, name, weights, sample_weight=points), Threads(2))
    of_points = POINTS if points else None
    own = METHODS[name].fit_pairs(X, PAIRS, SIMILAR, of_points, pair_weight=WEIGHTS[weights])
    assert done.digest == own.digest_
    told = {"pairs": 300, "absent": int((WEIGHTS[weights] == 0).sum())}
    provenance = read_manifest(done.address)["provenance"]
    assert own.forest_.provenance["pair_weight"] == provenance["pair_weight"] == told
    assert provenance["inputs"]["pair_weight"]["sha256"]
    np.testing.assert_array_equal(load(done.address).distance(), own.distance())


@pytest.mark.slow
def test_a_sealed_forest_says_that_pairs_had_weights(store: str, tmp_path: Path) -> None:
    done = checked_run(spec_of(store, tmp_path, "rfd", "whole"), Threads(1))
    told = CliRunner().invoke(main, ["inspect", done.address], catch_exceptions=False)
    assert f"of given pairs: absent {(WHOLE == 0).sum()}, pairs 300" in told.output
    METHODS["rfd"].fit_pairs(X, PAIRS, SIMILAR, pair_weight=WHOLE).save(f"{tmp_path}/python.zarr")
    assert load(f"{tmp_path}/python.zarr").forest_.provenance["pair_weight"]["pairs"] == 300


def test_jobs_with_other_weights_are_other_jobs(store: str, tmp_path: Path) -> None:
    specs = [spec_of(store, tmp_path, "rfd", name) for name in (None, "whole", "parts")]
    found = [stage_inputs(spec, f"{tmp_path}/{place}.job").fingerprint for place, spec in enumerate(specs)]
    assert len(set(found)) == 3
    assert len({(seen.size.n_rows, seen.plan.projected_bytes) for seen in map(preview, specs)}) == 1


@pytest.mark.slow
def test_a_job_adds_trees_to_a_forest_of_the_same_weights(store: str, tmp_path: Path) -> None:
    """`distforest fit --trees` grows on by the fingerprint, which covers the weights."""
    spec = spec_of(store, tmp_path, "rfd", "whole").to_dict()
    more = {**spec, "params": {**dict(spec["params"]), "n_estimators": 9}}  # type: ignore[call-overload]
    checked_run(Spec.from_dict(spec), Threads(1))
    earlier = open_forest(str(spec["output"]))
    folder = Folder(f"{spec['output']}.more.job")
    inputs = check_and_stage(Spec.from_dict(more), folder.address)
    done = fit(inputs, f"{tmp_path}/more.zarr", folder, Threads(1), Options(earlier=str(spec["output"])))
    own = RFD(9, random_state=3).fit_pairs(X, PAIRS, SIMILAR, pair_weight=WHOLE)
    assert done.digest == own.digest_
    assert open_forest(done.address).in_bag[: earlier.n_trees].tolist() == earlier.in_bag.tolist()


@pytest.mark.slow
def test_forests_of_other_weights_are_not_merged(store: str, tmp_path: Path) -> None:
    forests = [RFD(3, random_state=seed).fit_pairs(X, PAIRS, SIMILAR, pair_weight=WHOLE) for seed in (0, 1)]
    both = merge(forests)
    assert both.forest_.provenance["pair_weight"] == {"pairs": 300, "absent": int((WHOLE == 0).sum())}
    other = RFD(3, random_state=2).fit_pairs(X, PAIRS, SIMILAR)
    with pytest.raises(InputError, match="data_sha256"):
        merge([*forests, other])
    addresses = []
    for place, weights in enumerate(("whole", "parts")):
        table = {**spec_of(store, tmp_path, "rfd", weights).to_dict(), "seed": place}
        addresses.append(
            checked_run(Spec.from_dict({**table, "output": f"{tmp_path}/{weights}.zarr"}), Threads(1)).address
        )
    with pytest.raises(InputError, match=naming("pair_weight", "sha256")):
        merge(addresses)


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore:.*weight:distforest.errors.DistforestWarning")
def test_workers_grow_the_same(store: str, tmp_path: Path, cluster: OnDask) -> None:
    for name, own in METHODS.items():
        done = checked_run(spec_of(store, tmp_path, name, "parts"), cluster)
        assert done.digest == own.fit_pairs(X, PAIRS, SIMILAR, pair_weight=PARTS).digest_
    with_client = RFD(6, random_state=3, client=cluster.client)
    own = with_client.fit_pairs(X, PAIRS, SIMILAR, POINTS, pair_weight=PARTS)
    assert own.digest_ == METHODS["rfd"].fit_pairs(X, PAIRS, SIMILAR, POINTS, pair_weight=PARTS).digest_


# --- refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        ("short", ("input: ", "pairs", 300, 5)),
        ("points", ("input: ", "pairs", 300, 40)),
        ("wide", ("input.pair_weight: ", (300, 2))),
        ("complex", ("input.pair_weight: ", "complex128")),
        ("absent", ("input.pair_weight: ",)),
    ],
)
def test_metadata_show_weights_that_do_not_fit(
    store: str, tmp_path: Path, weights: str, named: tuple[object, ...]
) -> None:
    with pytest.raises(SpecError, match=naming(f"{store}/{weights}", *named)):
        preview(spec_of(store, tmp_path, "rfd", weights))


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        ("zero", ("pair_weight: ", "zero")),
        ("negative", ("pair_weight: ", -0.25, "pair 6")),
        ("one_kind", ("weight", "only similar")),
    ],
)
def test_weights_of_bad_values_are_refused(store: str, tmp_path: Path, weights: str, named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        checked_run(spec_of(store, tmp_path, "rfd", weights), Threads(1))
    assert not Path(f"{tmp_path}/rfd.zarr").exists()


def test_weights_of_pairs_go_with_given_pairs(store: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=naming("input.pair_weight: ", "'pairs'", "'similar'", "'sample_weight'")):
        spec_of(store, tmp_path, "rfd", "whole", pairs=None, similar=None, labels="y")
    table = spec_of(store, tmp_path, "rfd", "whole").to_dict()
    smerf = {"features": f"{store}/X", "distances": f"{store}/Z", "pair_weight": f"{store}/whole"}
    with pytest.raises(SpecError, match=naming("input.pair_weight: ", "unknown")):
        Spec.from_dict({**table, "method": "smerf", "params": {}, "input": smerf})
