"""The jobs of the soak: small ones of several methods, and what each of them must come to."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from sklearn.datasets import make_classification

from distforest.forest.sealed.artifact import open_forest
from distforest.jobs.any_spec import spec_from_dict
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.score import score
from distforest.jobs.score_spec import ScoreSpec
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit
from distforest.sources.arrays import write_array
from distforest.stores.folder import Folder

N_ROWS, N_DENSE = 4000, 500
"""Rows of the tables of features, and of the one with a dense matrix of distances."""


def write_inputs(group: str) -> None:
    """Write what the jobs read."""
    X, y = make_classification(N_ROWS, 12, n_informative=6, n_classes=3, random_state=0)
    X = X.astype(np.float32)
    few = X[:N_DENSE].astype(np.float64)
    apart = np.sqrt(np.maximum(((few[:, None] - few[None]) ** 2).sum(axis=2), 0.0)).astype(np.float32)
    arrays = {"X": X, "y": y.astype(np.int64), "few": X[:N_DENSE], "of_few": y[:N_DENSE].astype(np.int64), "D": apart}
    for name, values in arrays.items():
        write_array(group, name, values.shape, values.dtype, [values])


def kinds(group: str, forest: str) -> dict[str, dict[str, Any]]:
    """The jobs by name; what each lacks is an output, and a seed where trees are grown."""
    X, y, few, of_few, apart = (f"{group}/{name}" for name in ("X", "y", "few", "of_few", "D"))
    labels = {"features": X, "distances": {"kind": "labels", "values": y}}
    few_labels = {"features": few, "distances": {"kind": "labels", "values": of_few}}
    dense = {"features": few, "distances": {"kind": "dense", "matrix": apart}}
    rbf = {"similarity": {"kind": "rbf", "features": few}, "labels": of_few}
    fits = {
        "smerf, labels": ("smerf", labels, 60),
        "smerf, few labels": ("smerf", few_labels, 40),
        "smerf, dense": ("smerf", dense, 100),
        "urerf": ("urerf", {"features": few}, 60),
        "rfd": ("rfd", {"features": few, "labels": of_few}, 60),
        "simforest, rbf": ("simforest", rbf, 100),
    }
    found: dict[str, dict[str, Any]] = {
        name: {"format": 1, "method": method, "input": own, "params": {"n_estimators": n_trees}}
        for name, (method, own, n_trees) in fits.items()
    }
    found["rfd"]["params"]["n_constraints"] = 300
    asked = {"neighbors": {"answer": "neighbors", "n_neighbors": 5}, "classes": {"answer": "predict"}}
    for name, params in asked.items():
        own = {"forest": forest, "queries": X}
        found[f"score, {name}"] = {"format": 1, "job": "score", "input": own, "params": params}
    return found


def answers_digest(address: str) -> str:
    """Of the arrays that a scoring job has written."""
    digest = hashlib.sha256()
    for name, array in sorted(zarr.open_group(address, mode="r").arrays()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array[...]).tobytes())
    return digest.hexdigest()


@dataclass
class Truth:
    """What jobs must come to: each distinct one is run once in this process, where nothing disturbs it."""

    folder: Path
    known: dict[tuple[str, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.group, self.forest = str(self.folder / "data.zarr"), str(self.folder / "first.forest.zarr")
        write_inputs(self.group)
        self.kinds = kinds(self.group, self.forest)
        self._fitted(Spec.from_dict(self.spec("smerf, few labels", 0, self.forest)))

    def spec(self, kind: str, seed: int, output: str) -> dict[str, Any]:
        """A job of a kind."""
        found = {**copy.deepcopy(self.kinds[kind]), "output": output}
        return found if found.get("job") == "score" else {**found, "seed": seed}

    def expected(self, kind: str, seed: int) -> str:
        """The digest of what a job of this kind must make."""
        seed = 0 if self.kinds[kind].get("job") == "score" else seed
        if (kind, seed) not in self.known:
            output = self.folder / f"here-{len(self.known)}.zarr"
            self.known[kind, seed] = self._undisturbed(self.spec(kind, seed, str(output)))
        return self.known[kind, seed]

    def _undisturbed(self, asked: dict[str, Any]) -> str:
        spec = spec_from_dict(asked)
        if isinstance(spec, ScoreSpec):
            score(spec.question(), spec.output, Threads(1), overwrite=True)
            return answers_digest(spec.output)
        return self._fitted(spec)

    def _fitted(self, spec: Spec) -> str:
        own = Folder(str(self.folder / "here"))
        inputs = stage_inputs(spec, own.address)
        return fit(inputs, spec.output, own, Threads(1), Options(overwrite=True)).digest

    def found(self, kind: str, output: str) -> str:
        """The digest of what a job has made, read and checked whole."""
        if self.kinds[kind].get("job") == "score":
            return answers_digest(output)
        return open_forest(output).digest
