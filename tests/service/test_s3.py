"""Everything on S3: inputs, job folder, forest, scores and job root, by HTTP, through a proxy that fails."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distforest.errors import ArtifactError, ConflictError, InputError, JobError
from distforest.forest.sealed import artifact
from distforest.forest.sealed.artifact import open_forest
from distforest.jobs import merge
from distforest.jobs.any_spec import spec_from_dict
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.jobs.shards import committed_shards
from distforest.jobs.spec import Spec
from distforest.jobs.train import Fitted, Options, fit
from distforest.service.jobs import JobService
from distforest.service.registry import Registry
from distforest.sources.arrays import open_array, write_array
from distforest.stores import claims
from distforest.stores.claims import Claim
from distforest.stores.folder import Folder
from distforest.stores.outputs import UNFINISHED
from tests.messages import naming
from tests.service.faults import Fault as Strike
from tests.service.object_store import BUCKET, NEEDS_S3, Fault, ObjectStore, let_go
from tests.service.processes import Cluster, Iris, running, until
from tests.service.test_service import Ask, in_a_service, refused

pytestmark = [*NEEDS_S3, pytest.mark.cluster, pytest.mark.slow]

N_TREES, BATCH = 8, 2

WEATHER = (
    Fault("500", "PUT", 5, times=3),
    Fault("lost", "PUT", 7, times=3),
    Fault("cut", "GET", 6, times=6),
    Fault("503", "GET", 7, times=3),
    Fault("slow", "GET", 11, times=3),
    Fault("refused", "HEAD", 9, times=3),
    Fault("500", "POST", times=1),
)
"""Faults of every kind, none of which may change anything."""


@pytest.fixture
def impatient(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """The store, reached by a client that does not try again by itself."""
    import s3fs

    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    let_go()
    yield store
    let_go()


@dataclass(frozen=True)
class Data:
    """Iris on this host and on the store, the forest that it gives, and the distances by it."""

    iris: Iris
    place: str
    forest: str
    digest: str
    distances: np.ndarray

    def spec(self, job: str, n_trees: int = N_TREES) -> dict[str, Any]:
        """A job that lies on the store."""
        local = self.iris.spec(job, n_trees, BATCH)
        remote = json.loads(json.dumps(local).replace(str(self.iris.folder), self.place))
        return {**remote, "run": local["run"]}

    def queries(self) -> str:
        return f"{self.place}/iris.zarr/X"


@pytest.fixture(scope="module")
def data(store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Data:
    iris, place = Iris.written(tmp_path_factory.mktemp("iris")), store.place("data")
    for name in ("X", "y"):
        values = np.asarray(open_array(f"{iris.folder}/iris.zarr/{name}")[...])
        write_array(f"{place}/iris.zarr", name, values.shape, values.dtype, [values])
    fitted = trained(iris.spec("here", N_TREES, BATCH), f"{iris.folder}/job")
    output = f"{iris.folder}/here.scores.zarr"
    score(Question(fitted.address, f"{iris.folder}/iris.zarr/X", "distance"), output, Threads(1))
    return Data(iris, place, fitted.address, fitted.digest, np.asarray(open_array(f"{output}/distance")[...]))


def trained(table: dict[str, Any], job: str) -> Fitted:
    """Train in two threads of this process."""
    spec, folder = Spec.from_dict(table), Folder(job)
    options = Options(spec.run.batch, spec.run.retries, spec.run.overwrite)
    return fit(stage_inputs(spec, folder.address), spec.output, folder, Threads(2), options)


def asked_on_s3(data: Data, forest: str, job: str = "") -> dict[str, Any]:
    """The spec of a job that scores on the store."""
    input_ = {"forest": forest, "queries": data.queries()}
    return {
        "format": 1,
        "job": "score",
        "output": f"{forest}.scores{job}.zarr",
        "input": input_,
        "params": {"answer": "distance"},
    }


# --- in this process --------------------------------------------------------------------------------------------------


def test_training_and_scoring_on_s3_is_what_it_is_on_disk_in_any_weather(store: ObjectStore, data: Data) -> None:
    place = store.place("job")
    spec = {**data.spec("in-process"), "output": f"{place}/iris.forest.zarr"}
    with store.failing(*WEATHER) as struck:
        fitted = trained(spec, f"{place}/job")
        question = Question(fitted.address, data.queries(), "distance")
        scored = score(question, f"{place}/scores.zarr", Threads(2), folder=Folder(f"{place}/score"))
        distances = np.asarray(open_array(f"{place}/scores.zarr/distance")[...])
    assert set(struck) == {fault.kind for fault in WEATHER}
    assert fitted.digest == scored.digest == data.digest == open_forest(fitted.address).digest
    np.testing.assert_array_equal(distances, data.distances)
    assert Folder(place).names() == ["iris.forest.zarr", "score", "scores.zarr"]
    assert UNFINISHED not in Folder(fitted.address).names()
    assert trained(spec, f"{place}/job").n_grown == 0
    again = score(question, f"{place}/scores.zarr", Threads(2), folder=Folder(f"{place}/score"))
    assert again == scored  # by a run that ended before it could say so


def test_a_folder_on_s3_is_as_any_other(store: ObjectStore) -> None:
    folder = Folder(store.place("folder"))
    assert (folder.names(), folder.exists(), folder.is_local) == ([], False, False)
    folder.write("b.json", b"{}")
    folder.within("sub").write("empty", b"")
    folder.append("lines", b"1\n")
    folder.append("lines", b"2\n")
    with folder.open("b.json") as file:
        file.seek(1)
        assert file.read() == b"}"
    assert folder.names() == ["b.json", "lines", "sub"]
    assert (folder.read("lines"), folder.read("sub/empty"), folder.exists("a")) == (b"1\n2\n", b"", False)
    with pytest.raises(FileNotFoundError):
        folder.read("a")
    folder.discard("b.json")
    folder.discard("b.json")
    folder.clear("lines")
    assert folder.names() == ["lines"]
    folder.clear("nothing")
    assert not folder.exists()
    folder.remove()
    assert folder.names() == []


def test_the_file_that_stands_for_a_folder_is_not_in_it(store: ObjectStore) -> None:
    from s3fs import S3FileSystem

    folder = Folder(store.place("made-by-hand"))
    S3FileSystem(skip_instance_cache=True).call_s3(
        "put_object", Bucket=BUCKET, Key=f"{folder.address.split('/')[-1]}/", Body=b""
    )
    folder.write("x", b"1")
    assert folder.names() == ["x"]


def test_what_others_have_written_is_seen_at_once(store: ObjectStore, data: Data) -> None:
    from s3fs import S3FileSystem

    place, other = store.place("shared"), S3FileSystem(skip_instance_cache=True)
    write_array(place, "a", (1,), np.dtype(np.int64), [np.zeros(1, np.int64)])
    with pytest.raises(InputError, match=naming(place, "group with a;")):
        open_array(place)
    assert Folder(place).names() == ["a", "zarr.json"]
    other.copy(f"{data.place}/iris.zarr/X", f"{place}/X", recursive=True)
    assert open_array(f"{place}/X").shape == (150, 4)
    with pytest.raises(InputError, match=naming(place, "X, a;")):
        open_array(place)
    assert Folder(place).names() == ["X", "a", "zarr.json"]
    assert Folder(place).exists("X/zarr.json")


def test_a_line_whose_answer_was_lost_is_not_written_twice(impatient: ObjectStore) -> None:
    folder = Folder(impatient.place("lines"))
    folder.append("events", b"1\n")
    with impatient.failing(Fault("lost", "PUT")), pytest.raises(OSError, match="s3://"):
        folder.append("events", b"2\n3\n")
    folder.append("events", b"2\n3\n4\n")
    assert folder.read("events") == b"1\n2\n3\n4\n"


def test_a_store_that_does_not_answer_is_no_damage_and_what_is_missing_no_failure(
    impatient: ObjectStore, data: Data
) -> None:
    forest = f"{impatient.place('sealed')}/f.zarr"
    artifact.save(open_forest(data.forest), forest)
    for kind in ("500", "refused", "cut"):
        with impatient.failing(Fault(kind, "GET")):
            with pytest.raises(OSError, match=r".") as failure:
                open_forest(forest)
            assert not isinstance(failure.value, FileNotFoundError)
        with impatient.failing(Fault(kind, "GET", within="/c/0")), pytest.raises(OSError, match=r"."):
            open_forest(forest)
        with impatient.failing(Fault(kind, "GET", within="iris.zarr")), pytest.raises(OSError, match=r"."):
            open_array(data.queries())[...]
    assert open_forest(forest).digest == data.digest
    with pytest.raises(ArtifactError, match=f"{data.place}/iris.zarr: "):
        open_forest(f"{data.place}/iris.zarr")
    with pytest.raises(InputError, match=f"{data.place}/iris.zarr/Z: "):
        open_array(f"{data.place}/iris.zarr/Z")
    Folder(f"{forest}/left/c").discard("0")
    with pytest.raises(ArtifactError, match="left: chunk 0 "):
        open_forest(forest)
    Folder(f"{forest}/left/c").write("0", b"")
    with pytest.raises(ArtifactError, match="left: chunk 0 "):
        open_forest(forest)


def test_missing_credentials_are_named_as_what_is_missing(
    impatient: ObjectStore, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(PermissionError, match="credentials"):
        Folder(data.place).names()
    with pytest.raises(InputError, match="credentials"):
        open_array(data.queries())
    with pytest.raises(ArtifactError, match="credentials"):
        open_forest(f"{data.place}/f.zarr")


def test_what_somebody_else_has_at_an_output_stays(store: ObjectStore, data: Data) -> None:
    place = store.place("theirs")
    Folder(f"{place}/out.zarr").write("thesis.tex", b"years of work")
    spec = {**data.spec("theirs"), "output": f"{place}/out.zarr"}
    overwriting = {**spec, "run": {**spec["run"], "overwrite": True}}
    question = Question(data.forest, data.queries(), "distance")
    for table in (spec, overwriting):
        with pytest.raises(InputError, match=naming("out.zarr", "thesis.tex")):
            trained(table, f"{place}/job")
        with pytest.raises(InputError, match=naming("out.zarr:", "thesis.tex")):
            score(question, f"{place}/out.zarr", Threads(2), table is overwriting, folder=Folder(f"{place}/score"))
    assert Folder(f"{place}/out.zarr").names() == ["thesis.tex"]
    assert Folder(f"{place}/out.zarr").read("thesis.tex") == b"years of work"
    assert not Folder(f"{place}/out.zarr.job").exists()


def test_what_a_job_has_begun_in_place_it_goes_on_with(
    store: ObjectStore, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = store.place("begun")
    spec, seal = {**data.spec("begun"), "output": f"{place}/out.zarr"}, merge.seal
    question = Question(data.forest, data.queries(), "distance")

    def fails(*_: object) -> None:
        raise OSError("the store is gone")

    monkeypatch.setattr(merge, "seal", fails)
    with pytest.raises(OSError, match="the store is gone"):
        trained(spec, f"{place}/job")
    monkeypatch.setattr("distforest.jobs.score.answer_rows", fails)
    with pytest.raises(Exception, match="the store is gone"):
        score(question, f"{place}/scores.zarr", Threads(2))
    monkeypatch.undo()
    other = {**spec, "seed": 6}
    with pytest.raises(InputError, match=naming("out.zarr", "unfinished")):
        trained(other, f"{place}/other")
    assert merge.seal is seal
    done = trained(spec, f"{place}/job")
    assert (done.digest, done.n_grown) == (data.digest, 0)
    assert score(question, f"{place}/scores.zarr", Threads(2)).digest == data.digest
    np.testing.assert_array_equal(np.asarray(open_array(f"{place}/scores.zarr/distance")[...]), data.distances)
    with pytest.raises(InputError, match=naming("scores.zarr:", "answers")):
        score(question, f"{place}/scores.zarr", Threads(2))


def test_an_older_one_is_there_until_the_new_one_is_whole(
    store: ObjectStore, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = store.place("replaced")
    spec, seal = {**data.spec("replaced"), "output": f"{place}/out.zarr"}, merge.seal
    other = {**spec, "seed": 6, "run": {**spec["run"], "overwrite": True}}
    question = Question(data.forest, data.queries(), "distance")
    trained(spec, f"{place}/job")

    def fails(*_: object) -> None:
        assert open_forest(f"{place}/out.zarr").digest == data.digest
        raise OSError("the store is gone")

    monkeypatch.setattr(merge, "seal", fails)
    with pytest.raises(OSError, match="the store is gone"):
        trained(other, f"{place}/job")
    monkeypatch.setattr(merge, "seal", seal)
    assert open_forest(f"{place}/out.zarr").digest == data.digest
    with store.failing(*WEATHER):
        fitted = trained(other, f"{place}/job")
        score(question, f"{place}/scores.zarr", Threads(2))
        score(replace(question, answer="apply"), f"{place}/scores.zarr", Threads(2), overwrite=True)
    assert open_forest(f"{place}/out.zarr").digest == fitted.digest != data.digest
    assert Folder(f"{place}/scores.zarr").names() == ["nodes", "zarr.json"]
    assert Folder(place).names() == ["out.zarr", "scores.zarr"]


def test_an_output_on_s3_has_one_owner_by_any_name(store: ObjectStore) -> None:
    place = store.place("owned")
    first = Claim(f"{place}/out.zarr", "the first")
    with first.held():
        for name in (f"{place}/out.zarr/", f"{place.replace('s3://', 's3a://')}/out.zarr"):
            with pytest.raises(ConflictError, match=naming(f"{name} ", "the first", "the second")):
                Claim(name, "the second").take()
        with pytest.raises(ConflictError, match=naming("out.zarr/deep.zarr", "inside")):
            Claim(f"{place}/out.zarr/deep.zarr", "the second").take()
        dead = {**json.loads(Folder(first.folder).read("owner.json")), "born": 1.0}
        Folder(first.folder).write("owner.json", json.dumps(dead).encode())
        Claim(f"{place}/out.zarr", "the second", "2").take()
        with pytest.raises(ConflictError, match="the second"):
            first.take()
    Claim(f"{place}/out.zarr", "the second", "2").release()
    assert Folder(place).names() == []


def test_of_many_that_come_at_once_one_owns_an_output_on_s3(store: ObjectStore) -> None:
    place = store.place("at-once")
    asked = [Claim(f"{place}/out.zarr", f"job {number}") for number in range(4)]

    def taken(claim: Claim) -> bool:
        with suppress(ConflictError):
            claim.take()
            return True
        return False

    with ThreadPoolExecutor(len(asked)) as pool:
        owns = list(pool.map(taken, asked))
    assert sorted(owns) == [False, False, False, True]
    asked[owns.index(True)].release()
    assert Folder(place).names() == []


def test_a_process_elsewhere_is_alive_by_the_clock_of_the_store(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Claim(f"{store.place('elsewhere')}/out.zarr", "the first")
    with monkeypatch.context() as patch:
        patch.setattr(claims, "machine", lambda: "elsewhere")
        claim.take()
    other = Claim(claim.output, "the second")
    with pytest.raises(ConflictError, match=naming(claim.output, "the first", "30 s")):
        other.take()
    monkeypatch.setattr(claims, "CLAIM_STALE", -1.0)
    with other.held():
        pass
    assert Folder(claim.folder).names() == []


def test_a_bucket_that_is_missing_is_reported_at_the_door(store: ObjectStore, data: Data) -> None:
    output = "s3://no-such-bucket/out.zarr"
    for write in (
        lambda: trained({**data.spec("nowhere"), "output": output}, f"{data.place}/nowhere"),
        lambda: score(Question(data.forest, data.queries(), "distance"), output, Threads(1)),
    ):
        with pytest.raises(InputError, match=f"{output}: .*bucket"):
            write()


def test_a_job_whose_bucket_is_missing_is_refused_at_submit(store: ObjectStore, data: Data, tmp_path: Path) -> None:
    output = "s3://no-such-bucket/out.zarr"
    fitting, asking = {**data.spec("nowhere"), "output": output}, {**asked_on_s3(data, data.forest), "output": output}

    async def use(_service: JobService, ask: Ask) -> None:
        for table in (fitting, asking):
            with refused(await ask("submit", spec=spec_from_dict(table).to_json(), id="a"), "InputError") as faults:
                assert faults[0].startswith(f"output: {output}: {output}.job")
        assert Registry(str(tmp_path)).ids() == []

    in_a_service(str(tmp_path), use)


# --- through the service ----------------------------------------------------------------------------------------------


@dataclass
class OnS3(Cluster):
    """A cluster whose job root is on the store."""

    place: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.root = f"{self.place}/jobs"  # type: ignore[assignment]

    def health(self) -> dict[str, Any]:
        """What the service says of itself; nothing while it reads its job root, which takes a while."""
        with suppress(JobError):
            return super().health()
        return {}

    def receipts(self, job: str) -> list[Any]:
        """The receipts of a job's committed trees."""
        work = self.registry.folder(job).within("work")
        [shards] = [name for name in work.names() if name.startswith("shards-")]
        return committed_shards(work.within(shards))


@pytest.fixture(scope="module")
def started(store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnS3]:
    place = store.place("service")
    settings = store.environment | {"DISTFOREST_ALLOW_PREFIX": f"s3://{BUCKET} {tmp_path_factory.getbasetemp()}"}
    folder = tmp_path_factory.mktemp("cluster")
    with running(OnS3(folder, settings=settings, worker=("--no-nanny",), place=place)) as cluster:
        yield cluster


def submit(cluster: OnS3, job: str, spec: dict[str, Any]) -> None:
    cluster.service.submit(spec_from_dict(spec).to_json(), job)


def assert_only_told(cluster: OnS3, job: str) -> None:
    """Nothing of a job is left in its folder but what readers need."""
    until(lambda: Folder(f"{cluster.root}/{job}").names() == ["events.jsonl", "spec.json", "state.json", "stop"])


def test_the_service_trains_and_scores_on_s3_in_any_weather(cluster: OnS3, store: ObjectStore, data: Data) -> None:
    spec = {**data.spec("weather"), "output": f"{cluster.place}/weather.forest.zarr"}
    with store.failing(*WEATHER) as struck:
        submit(cluster, "weather", spec)
        assert cluster.succeeded("weather")["result"]["digest"] == data.digest
        submit(cluster, "scores", asked_on_s3(data, spec["output"]))
        told = cluster.succeeded("scores")
        assert_only_told(cluster, "weather")
        assert_only_told(cluster, "scores")
    assert set(struck) == {fault.kind for fault in WEATHER}
    np.testing.assert_array_equal(np.asarray(open_array(f"{told['output']}/distance")[...]), data.distances)
    alone = Registry(cluster.root)
    assert [(job["id"], job["state"]) for job in alone.listed(now=0.0)] == [
        ("scores", "SUCCEEDED"),
        ("weather", "SUCCEEDED"),
    ]
    assert alone.job("weather", now=0.0)["result"]["digest"] == data.digest
    events = alone.events("weather")
    assert [event["n"] for event in events] == list(range(1, len(events) + 1))
    assert Counter(event["event"] for event in events)["trees"] == N_TREES // BATCH


def test_a_store_that_is_away_for_a_while_is_waited_for(cluster: OnS3, store: ObjectStore, data: Data) -> None:
    spec = {**data.spec("away"), "output": f"{cluster.place}/away.forest.zarr"}
    held = cluster.faults.arm(Strike("mid_tree", "hold", "away", N_TREES - 1))
    submit(cluster, "away", spec)
    until(lambda: cluster.faults.struck(held))
    with store.failing(*(Fault("refused", method) for method in ("GET", "HEAD", "PUT", "POST"))) as struck:
        cluster.faults.release()
        until(lambda: struck["refused"] > 20)
    told = cluster.succeeded("away")
    assert (told["result"]["digest"], told["result"]["n_trees"], told["attempt"]) == (data.digest, N_TREES, 1)
    assert cluster.health()["workers"] == 2


def test_a_job_on_s3_is_cancelled_and_resumed(cluster: OnS3, data: Data) -> None:
    spec = {**data.spec("stopped"), "output": f"{cluster.place}/stopped.forest.zarr"}
    held = cluster.faults.arm(Strike("mid_tree", "hold", "stopped", N_TREES - 1))
    submit(cluster, "stopped", spec)
    until(lambda: cluster.faults.struck(held))
    cluster.service.cancel("stopped")
    cluster.reached("stopped", "CANCELLED")
    cluster.faults.release()
    until(lambda: cluster.faults.stopped("stopped"))
    assert_only_told(cluster, "stopped")
    assert not Folder(spec["output"]).exists()
    cluster.service.resume("stopped")
    told = cluster.succeeded("stopped")
    assert (told["attempt"], told["result"]["digest"]) == (2, data.digest)


def test_of_two_services_that_start_on_a_root_at_once_one_serves_it(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the store compares; where it does not, both say that they cannot know."""
    two = OnS3(tmp_path, settings=store.environment, place=store.place("twice"), n_workers=0)
    try:
        started = [two.start_scheduler(port=0) for _ in range(2)]
        [refused] = until(lambda: [one for one in started if one.process.poll() is not None])
        [serving] = [one for one in started if one is not refused]
        assert refused.wait() == 1
        assert re.search("^error: .* job root s3://.* tcp://127.0.0.1:", refused.said, re.MULTILINE)
        held = Registry(two.root).lease() or {}
        assert (held["pid"], held["excludes"]) == (serving.process.pid, True)
        assert "does not compare" not in serving.said
        assert serving.end() == 0
        assert Registry(two.root).lease() is None
        monkeypatch.setattr(store, "conditions", "dropped")
        old = two.start_scheduler(port=0)
        until(lambda: re.search(f"{two.root} .*does not compare", old.said))
        until(lambda: Registry(two.root).lease())
        assert old.end() == 0
    finally:
        two.end()


def test_a_cluster_that_is_killed_loses_nothing_that_is_on_s3(cluster: OnS3, data: Data) -> None:
    spec = {**data.spec("restart"), "output": f"{cluster.place}/restart.forest.zarr"}
    held = cluster.faults.arm(Strike("mid_tree", "hold", "restart", N_TREES - 1))
    submit(cluster, "restart", spec)
    until(lambda: cluster.faults.struck(held))
    until(lambda: len(cluster.receipts("restart")) == N_TREES // BATCH - 1)
    cluster.scheduler.process.kill()
    cluster.kill_workers()
    cluster.scheduler.wait()
    assert Registry(cluster.root).job("restart", now=float("inf"))["state"] == "INTERRUPTED"
    cluster.start()
    told = cluster.succeeded("restart")
    assert (told["result"]["digest"], told["result"]["n_grown"], told["attempt"]) == (data.digest, BATCH, 2)
    assert_only_told(cluster, "restart")
