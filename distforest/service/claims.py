"""The outputs of a service's jobs: each is owned by its job from the submit until the job has ended, or was cancelled.

The claim lies beside the output, where a `fit` on the command line and other services see it, and names the job's
folder in the job root, which tells whether the job has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distforest.jobs.spec import Spec
from distforest.service.registry import ENDS
from distforest.stores.addresses import real_address
from distforest.stores.claims import Claim
from distforest.stores.outputs import ANSWERS_KIND, FOREST_KIND, check_kind

if TYPE_CHECKING:
    from distforest.jobs.any_spec import AnySpec
    from distforest.service.messages import JobState
    from distforest.service.registry import Registry


def claim_of(registry: Registry, job: str, output: str) -> Claim:
    """The claim of a job on its output: the same one at each start of the job."""
    root = real_address(registry.folder(job).address)
    return Claim(output, f"job {job} of {registry.root}", root, root, ENDS)


def take_in(registry: Registry, job: str, spec: AnySpec, state: JobState) -> None:
    """Write a new job, which owns its output when this returns; nothing is left of one that is refused.

    Raises
    ------
    ConflictError
        Another job owns the output.
    InputError
        Nothing can be written there, or there is something that is never replaced.
    OSError
        A store does not answer.
    """
    check_kind(spec.output, FOREST_KIND if isinstance(spec, Spec) else ANSWERS_KIND)
    registry.create(job, spec.to_json(), state)  # before the claim, which counts for as long as there is such a job
    try:
        claim_of(registry, job, spec.output).take()
    except BaseException:
        registry.remove(job)
        raise


def take_again(registry: Registry, job: str, output: str) -> None:
    """Own the output of a job that goes on after its end; raises as `take_in`."""
    claim_of(registry, job, output).take()


def give_back(registry: Registry, state: JobState) -> None:
    """Give back the output of a job that has ended."""
    claim_of(registry, state["id"], state["output"]).release()
