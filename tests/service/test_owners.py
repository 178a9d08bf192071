"""The outputs of a service's jobs: one job owns one, whoever else comes, and gives it back at its end."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distforest.errors import ConflictError
from distforest.service.jobs import JobService
from distforest.service.registry import Registry
from distforest.sources.arrays import write_array
from distforest.stores.claims import CLAIM, Claim
from distforest.stores.folder import Folder
from tests.messages import naming
from tests.service.command_line import run
from tests.service.jobs_on_paper import NOWHERE, spec_text, state_of
from tests.service.test_service import Ask, at_work, in_a_service, reached, refused


def scoring_text(output: str) -> str:
    table = {"format": 1, "job": "score", "output": output, "input": {"forest": "/x/f.zarr", "queries": "/x/X"}}
    return json.dumps(table)


def owner(output: str) -> Any:
    """Who owns an output, by its claim."""
    return json.loads(Folder(f"{output}.job").read(CLAIM))["job"]


def test_the_second_of_two_jobs_with_one_output_is_refused_at_submit(root: str) -> None:
    output = f"{NOWHERE}/a.zarr"

    async def use(service: JobService, ask: Ask) -> None:
        await at_work(service, ask)
        others = (spec_text(output=output), spec_text(output=f"{output}/x.zarr"), scoring_text(output))
        for text in (spec_text("a"), *others):
            with refused(await ask("submit", spec=text, id="b"), "ConflictError") as faults:
                assert re.match(naming(output, f"job a of {root}", "job b of", "`distforest cancel a`"), faults[0])
        assert (Registry(root).ids(), [job["id"] for job in service.listed()]) == (["a"], ["a"])
        assert (await ask("submit", spec=spec_text("a"), id="a"))["created"] is False
        await ask("cancel", id="a")
        await reached(lambda: service.job("a")["state"] == "CANCELLED" and not service._running)
        assert not Folder(f"{output}.job").exists()
        assert (await ask("submit", spec=spec_text("a"), id="b"))["created"] is True
        assert owner(output) == f"job b of {root}"
        with refused(await ask("resume", id="a"), "ConflictError") as faults:
            assert "job b of" in faults[0]
        assert service.job("a")["state"] == "CANCELLED"
        await ask("cancel", id="b")
        await reached(lambda: service.job("b")["state"] == "CANCELLED" and not service._running)
        assert (await ask("resume", id="a"))["job"]["state"] == "QUEUED"
        assert owner(output) == f"job a of {root}"

    in_a_service(root, use)


def test_of_two_submits_at_once_one_is_taken_in(root: str) -> None:
    async def use(service: JobService, ask: Ask) -> None:
        asked = (ask("submit", spec=spec_text(output=f"{NOWHERE}/x.zarr", seed=n), id=f"job-{n}") for n in range(4))
        answers = await asyncio.gather(*asked)
        kinds = [answer.get("error", {}).get("kind") for answer in answers]
        assert sorted(kinds, key=str) == ["ConflictError"] * 3 + [None]
        [job] = service.listed()
        assert Registry(root).ids() == [job["id"]] == [f"job-{kinds.index(None)}"]

    in_a_service(root, use)


def test_an_output_by_any_other_name_is_the_same(root: str, tmp_path: Path) -> None:
    (tmp_path / "link.zarr").symlink_to("a.zarr")
    (tmp_path / "in").symlink_to(".")
    names = [
        f"{tmp_path}/link.zarr",
        f"{tmp_path}/in/a.zarr",
        f"file://{tmp_path}/a.zarr",
        f"file://{tmp_path}/in/a.zarr",
    ]

    async def use(_service: JobService, ask: Ask) -> None:
        await ask("submit", spec=spec_text(output=f"{tmp_path}/a.zarr"), id="a")
        for name in names:
            with refused(await ask("submit", spec=spec_text(output=name), id="b"), "ConflictError") as faults:
                assert re.match(naming(f"{name} ", "job a of "), faults[0])

    in_a_service(root, use)


@pytest.mark.slow
def test_a_fit_beside_a_service_and_a_service_beside_a_fit_are_refused(root: str, tmp_path: Path) -> None:
    output = f"{tmp_path}/f.zarr"
    write_array(f"{tmp_path}/d.zarr", "X", (4, 2), np.dtype(np.float32), [np.eye(4, 2, dtype=np.float32)])
    (tmp_path / "fit.toml").write_text(
        f'format = 1\nmethod = "urerf"\noutput = "{output}"\n[input]\nfeatures = "{tmp_path}/d.zarr/X"\n'
    )

    async def use(_service: JobService, ask: Ask) -> None:
        with Claim(output, "`distforest fit fit.toml`").held():
            with refused(await ask("submit", spec=spec_text(output=output), id="a"), "ConflictError") as faults:
                assert re.match(naming(output, "`distforest fit fit.toml`"), faults[0])
            assert Registry(root).ids() == []
        await ask("submit", spec=spec_text(output=output), id="a")
        for flags in ((), ("--overwrite",)):
            code, _, err = await asyncio.to_thread(run, "fit", tmp_path / "fit.toml", *flags)
            assert code == 2
            assert re.match(naming(f"error: {output}", f"job a of {root}"), err)

    in_a_service(root, use)
    assert owner(output) == f"job a of {root}"  # the next service goes on with it
    with pytest.raises(ConflictError, match=naming(output, f"job a of {root}", "another fit")):
        Claim(output, "another fit").take()

    async def use_again(_service: JobService, ask: Ask) -> None:
        await ask("cancel", id="a")
        await reached(lambda: not (tmp_path / "f.zarr.job").exists())

    in_a_service(root, use_again)


def test_what_can_be_no_output_is_refused_at_submit(root: str, tmp_path: Path) -> None:
    (tmp_path / "theirs.zarr").mkdir()
    (tmp_path / "theirs.zarr" / "thesis.tex").write_text("mine")
    (tmp_path / "file.zarr").write_text("mine")
    named = {
        "no/f.zarr": f"{tmp_path}/no",
        "theirs.zarr": "thesis.tex",
        "file.zarr": "a file",
    }

    async def use(_service: JobService, ask: Ask) -> None:
        for name, found in named.items():
            for text in (
                spec_text(output=f"{tmp_path}/{name}", run={"overwrite": True}),
                scoring_text(f"{tmp_path}/{name}"),
            ):
                with refused(await ask("submit", spec=text, id="a"), "InputError") as faults:
                    assert re.match(naming(f"{tmp_path}/{name}", found), faults[0])
        assert Registry(root).ids() == []

    in_a_service(root, use)
    assert {path.name for path in tmp_path.iterdir()} == {"file.zarr", "root", "theirs.zarr"}


def test_jobs_of_an_older_service_that_share_an_output_do_not_both_run(root: str) -> None:
    """It took both in; the first to begin owns the output, and the other one fails."""
    registry = Registry(root)
    for name in ("a", "b"):
        state = state_of(name, submitted=float(ord(name)), output=f"{NOWHERE}/x.zarr")
        registry.create(name, spec_text(output=f"{NOWHERE}/x.zarr", seed=ord(name)), state)

    async def use(service: JobService, _ask: Ask) -> None:
        await reached(lambda: "FAILED" in {job["state"] for job in service.listed()})
        [failed] = [job for job in service.listed() if job["state"] == "FAILED"]
        other = "b" if failed["id"] == "a" else "a"
        assert failed["error"]["kind"] == "ConflictError"
        assert f"job {other} of {root}" in failed["error"]["message"]
        assert owner(f"{NOWHERE}/x.zarr") == f"job {other} of {root}"

    in_a_service(root, use)


def test_a_job_that_the_store_does_not_take_in_owns_nothing(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(_service: JobService, ask: Ask) -> None:
        def refuse(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(Claim, "take", refuse)
            with refused(await ask("submit", spec=spec_text("a"), id="a"), "JobError") as faults:
                assert "No space left" in faults[0]
        assert Registry(root).ids() == []
        assert not Folder(f"{NOWHERE}/a.zarr.job").exists()
        assert (await ask("submit", spec=spec_text("a"), id="a"))["created"] is True

    in_a_service(root, use)
