"""Earlier trees: those of a sealed forest become a shard of a job that wants more of them, as if it had grown them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from distforest.forest.sealed.artifact import open_forest
from distforest.growth.earlier_trees import as_part
from distforest.jobs.shards import Receipt, commit, read_receipt, shard_name
from distforest.jobs.versions import VERSIONS_HERE
from distforest.stores.outputs import FOREST_KIND, check_kind

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.jobs.inputs import Inputs
    from distforest.stores.folder import Folder


@dataclass(frozen=True)
class EarlierTrees:
    """A job's inputs, the address of a sealed forest with its first trees, and the folder of its shards."""

    inputs: Inputs
    forest: str
    shards: Folder

    def __str__(self) -> str:
        return f"the trees of {self.forest}"


def trees_of_same_job(inputs: Inputs, manifest: Mapping[str, Any]) -> int | None:
    """The number of trees in a manifest that is of the same job but for that number; None for another job."""
    n_trees = manifest["meaning"]["params"].get("n_estimators")
    same = replace(inputs, params={**inputs.params, "n_estimators": n_trees})
    return n_trees if manifest["provenance"].get("fingerprint") == same.fingerprint else None


def keep_trees(task: EarlierTrees) -> None:
    """Commit the trees of a sealed forest as a shard, unless that was done before or no forest is there.

    Raises
    ------
    InputError
        The forest has other parameters, another seed, or more trees.
    ArtifactError
        The forest is damaged.
    """
    if check_kind(task.forest, FOREST_KIND) is None:
        return
    forest = open_forest(task.forest)
    name = shard_name(0, forest.n_trees - 1)
    if read_receipt(task.shards, name):
        return
    receipt = Receipt(0, forest.n_trees - 1, name, 0.0)
    commit(task.shards, as_part(task.inputs.problem(), forest), receipt, grown_with(forest))


def grown_with(forest: Forest) -> dict[str, str]:
    """The versions that grew the trees of a forest, several of them joined by "or"."""
    sets = forest.provenance.get("grown_by") or [forest.provenance.get("versions", {})]
    return {name: " or ".join(sorted({str(one.get(name, "unknown")) for one in sets})) for name in VERSIONS_HERE}
