"""The outputs of a service's jobs: a job owns its output from the submit until it has ended or was cancelled.

The claim is a file beside the output, where a `fit` on the command line and other services see it. It names the job's
folder in the job root, which shows whether the job has ended.
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
    """The claim of a job on its output; each start of the job makes the same claim."""
    root = real_address(registry.folder(job).address)
    return Claim(output, f"job {job} of {registry.root}", root, root, ENDS)


def take_in(registry: Registry, job: str, spec: AnySpec, state: JobState) -> None:
    """Write a new job, which owns its output when this returns; a job that is refused leaves nothing behind.

    Raises
    ------
    ConflictError
        Another job owns the output.
    InputError
        Nothing can be written there, or something is there that is never replaced.
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


def take_again(registry: Registry, job: str, spec: AnySpec) -> None:
    """Claim the output for a job that is resumed after its end, and write its spec; raises as `take_in`."""
    claim_of(registry, job, spec.output).take()
    registry.write_spec(job, spec.to_json())


def give_back(registry: Registry, state: JobState) -> None:
    """Release the output of a job that has ended."""
    claim_of(registry, state["id"], state["output"]).release()
