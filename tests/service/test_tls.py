"""A service under TLS, as real processes: who holds a certificate has a job run, and a stranger is told nothing."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import pickle
import pickletools
import shutil
import ssl
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Security
from distributed.comm import CommClosedError, connect

import distforest
from distforest.errors import InputError
from distforest.jobs.spec import Spec
from distforest.service.calls import Service
from distforest.sources.arrays import open_array
from tests.messages import naming
from tests.service.processes import PATIENCE, Cluster, Iris, make_certificates, running, security

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


class Secured(Cluster):
    """A cluster whose processes are told of certificates in a folder, and of nothing else."""

    @property
    def tls(self) -> Path:
        return self.folder / "tls"

    @property
    def address(self) -> str:
        return f"tls://127.0.0.1:{self.port}"

    @property
    def service(self) -> Service:
        return Service(self.address, security(self.tls))

    def files(self) -> set[str]:
        """All that lies in the job root, but for what is just being written."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.suffix != ".partial"}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A scheduler with the service, and a worker; beside them certificates of another authority."""
    folder = tmp_path_factory.mktemp("secured")
    for name in ("tls", "other"):
        make_certificates(folder / name)
    options = ("--allow-prefix", str(folder))
    with running(Secured(folder, options, {"DASK_CONFIG": str(folder / "tls")}, n_workers=1)) as found:
        yield found


@pytest.fixture(scope="module")
def done(secured: Secured) -> dict[str, Any]:
    """A job that a user with a certificate has had run to its end."""
    iris = Iris.written(secured.folder)
    return secured.succeeded(secured.submit("mine", iris.spec("mine", n_trees=6)))


def test_the_owner_of_a_job_is_the_name_in_the_certificate(secured: Secured, done: dict[str, Any]) -> None:
    assert done["owner"] == "client"
    own = secured.folder / "tls"
    files = {"tls_ca_file": "ca.pem", "tls_client_cert": "ada.pem", "tls_client_key": "ada-key.pem"}
    known = {name: str(own / file) for name, file in files.items()}
    ada = Service(secured.address, Security(require_encryption=True, **known))
    spec = Spec.from_dict(Iris(secured.folder).spec("hers", n_trees=3)).to_json()
    assert ada.submit(spec, "hers", owner="charles")["job"]["owner"] == "ada"
    secured.succeeded("hers")
    assert ada.remove("hers") == "hers"


def command(secured: Secured, folder: str | None, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line, with the certificates in a folder, or none."""
    kept = {name: value for name, value in secured.environment.items() if name != "DASK_CONFIG"}
    known = {"DASK_CONFIG": str(secured.folder / folder)} if folder else {}
    asked = [sys.executable, "-m", "distforest", *words, "--scheduler", secured.address]
    return subprocess.run(asked, env=kept | known, capture_output=True, text=True, check=False, timeout=PATIENCE)


# --- who has a certificate --------------------------------------------------------------------------------


def test_a_job_is_run_from_submission_to_forest(secured: Secured, done: dict[str, Any]) -> None:
    assert secured.health()["address"].startswith("tls://")
    assert done["result"]["n_trees"] == 6
    assert distforest.load(done["result"]["forest"]).n_estimators == 6
    assert {event["event"] for event in secured.events("mine")} >= {"submitted", "started", "trees", "succeeded"}


def test_a_user_needs_the_files_of_a_client_alone(secured: Secured, done: dict[str, Any]) -> None:
    own = secured.folder / "user"
    own.mkdir()
    for name in ("ca.pem", "client.pem", "client-key.pem"):
        shutil.copy(secured.tls / name, own)
    told = (secured.tls / "dask.yaml").read_text()
    (own / "dask.yaml").write_text(told.replace(str(secured.tls), str(own)))
    answer = command(secured, "user", "list", "--json")
    assert answer.returncode == 0, answer.stderr
    assert [job["id"] for job in json.loads(answer.stdout)["jobs"]] == ["mine"]


def shake(secured: Secured, answers: str, connects: str) -> None:
    """Let two roles of the cluster shake hands in memory; raises what either of them raises."""
    asked = security(secured.tls)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    contexts = asked.get_connection_args(connects)["ssl_context"], asked.get_listen_args(answers)["ssl_context"]
    ends = [contexts[0].wrap_bio(back, there), contexts[1].wrap_bio(there, back, server_side=True)]
    for _ in range(5):
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
    assert not ends


def test_a_client_cannot_pose_as_a_scheduler(secured: Secured) -> None:
    for answers, connects in (("scheduler", "client"), ("worker", "scheduler"), ("worker", "worker")):
        shake(secured, answers, connects)
    with pytest.raises(ssl.SSLError, match=r"CERTIFICATE_VERIFY_FAILED.*purpose"):
        shake(secured, "client", "worker")


# --- who has none -----------------------------------------------------------------------------------------


def bare(secured: Secured) -> ssl.SSLContext:
    """Of a stranger who trusts the cluster and shows nothing."""
    context = ssl.create_default_context(cafile=secured.tls / "ca.pem")
    context.check_hostname = False
    return context


def of_another_authority(secured: Secured) -> ssl.SSLContext:
    """Of a stranger who trusts the cluster and shows a certificate of another authority."""
    context, other = bare(secured), secured.folder / "other"
    context.load_cert_chain(other / "client.pem", other / "client-key.pem")
    return context


def trusting_anybody(secured: Secured) -> ssl.SSLContext:
    """Of a stranger who looks at no certificate and shows none."""
    context = bare(secured)
    context.verify_mode = ssl.CERT_NONE
    return context


SPEC = json.dumps({"format": 1, "method": "smerf", "output": "/x.zarr"})
CALLS: list[dict[str, object]] = [
    {"op": "distforest_submit", "spec": SPEC, "id": "theirs"},
    {"op": "distforest_list"},
    *({"op": f"distforest_{name}", "id": "mine"} for name in ("status", "events", "cancel", "resume", "remove")),
    {"op": "distforest_health"},
    {"op": "identity"},
]


async def ask(address: str, call: dict[str, object], **how: Any) -> object:
    """Connect in a stranger's way, call, and hand back the answer, if one comes."""
    comm = await connect(address, timeout=60, **how)
    try:
        await comm.write({**call, "reply": True})
        return await comm.read()
    finally:
        comm.abort()


@pytest.mark.parametrize("stranger", [bare, of_another_authority, trusting_anybody])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call["op"])
def test_a_stranger_learns_nothing(
    secured: Secured, done: dict[str, Any], stranger: Callable[[Secured], ssl.SSLContext], call: dict[str, object]
) -> None:
    before = secured.service.listed()["jobs"], secured.files()
    with pytest.raises((CommClosedError, OSError)):
        asyncio.run(ask(secured.address, call, ssl_context=stranger(secured)))
    assert (secured.service.listed()["jobs"], secured.files()) == before


@pytest.mark.parametrize("call", CALLS[:2], ids=lambda call: call["op"])
def test_a_stranger_without_tls_learns_nothing(secured: Secured, done: dict[str, Any], call: dict[str, object]) -> None:
    before = secured.files()
    with pytest.raises((CommClosedError, OSError)):
        asyncio.run(ask(secured.address.replace("tls://", "tcp://"), call))
    assert secured.files() == before


@pytest.mark.parametrize(("folder", "word"), [(None, "list"), ("other", "cancel")])
def test_the_command_line_of_a_stranger_says_that_it_is_refused(
    secured: Secured, done: dict[str, Any], folder: str | None, word: str
) -> None:
    answer = command(secured, folder, word, *([] if word == "list" else ["mine"]))
    assert (answer.returncode, answer.stdout) == (3, ""), answer.stderr
    assert "certificate" in answer.stderr


def test_a_certificate_lets_in_who_is_refused_without(secured: Secured, done: dict[str, Any]) -> None:
    """The calls of strangers are calls that are answered: it is the certificate alone that is missing."""
    known = security(secured.tls).get_connection_args("client")["ssl_context"]
    answers = [asyncio.run(ask(secured.address, call, ssl_context=known)) for call in (CALLS[1], CALLS[-1])]
    assert all(isinstance(answer, dict) and "error" not in answer for answer in answers)


# --- no file is unpickled ---------------------------------------------------------------------------------


def is_pickle(content: bytes) -> bool:
    """Whether a pickle could be read from the start of a file."""
    try:
        list(pickletools.genops(content))
    except (ValueError, IndexError, UnicodeDecodeError):
        return False
    return True


def holds_objects(path: Path) -> bool:
    """Whether an array of NumPy, or an archive of them, holds objects, which are pickled."""
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            return any(b"'|O'" in archive.read(name)[:200] for name in archive.namelist())
    return path.suffix == ".npy" and b"'|O'" in path.read_bytes()[:200]


def test_no_file_of_a_job_holds_a_pickle(secured: Secured, done: dict[str, Any]) -> None:
    files = [
        path
        for path in secured.folder.rglob("*")
        if path.is_file() and path.parent.name not in ("tls", "other", "user")
    ]
    kinds = {path.name for path in files} | {path.suffix for path in files}
    assert kinds >= {"spec.json", "state.json", "events.jsonl", "service.json", "manifest.json", "zarr.json", ".npy"}
    found = [path for path in files if is_pickle(path.read_bytes()) or holds_objects(path) or path.suffix == ".pkl"]
    assert found == []


def test_pickles_are_told_from_other_files(tmp_path: Path) -> None:
    objects = np.array([{}, None], dtype=object)
    np.save(tmp_path / "a.npy", objects)
    np.savez(tmp_path / "a.npz", a=np.zeros(2), b=objects)
    np.savez(tmp_path / "b.npz", a=np.zeros(2))
    assert [holds_objects(tmp_path / name) for name in ("a.npy", "a.npz", "b.npz")] == [True, True, False]
    assert all(is_pickle(pickle.dumps({"a": 1}, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1))
    assert not is_pickle(b'{"a": 1}')


def test_the_package_reads_no_pickle() -> None:
    """Two modules import what unpickles: for a process and its child, and for the user's own compiled kernels."""
    readers = {"load", "save", "savez", "savez_compressed", "read_array", "write_array"}
    n_readers = 0
    for path in sorted(Path(distforest.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                given = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
                tops = {name.split(".")[0] for name in given}
                if path.name == "kernel_cache.py" or path.match("lazy/calling.py"):
                    continue
                assert not tops & {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}, path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in readers:
                if not ast.unparse(node.func.value).startswith(("np", "numpy")):
                    continue
                n_readers += 1
                told = {word.arg: ast.unparse(word.value) for word in node.keywords}
                assert told.get("allow_pickle") == "False", f"{path}:{node.lineno}"
    assert n_readers > 3


PICKLE, STRINGS, BYTES = {"id": "pickle", "protocol": 5}, {"id": "vlen-utf8"}, {"id": "zlib", "level": 1}
CODECS = {
    "object": ("|O", [PICKLE], None),
    "filter": ("<f4", [PICKLE], None),
    "compressor": ("<f4", None, PICKLE),
    "behind another": ("|O", [STRINGS, PICKLE], None),
    "before another": ("|O", [PICKLE, STRINGS], BYTES),
}


class Trap:
    """An object whose pickle makes a folder when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("how", CODECS)
def test_an_array_with_pickles_is_never_unpickled(tmp_path: Path, how: str) -> None:
    """Zarr's second format has a codec that pickles; an input may come from a stranger."""
    (dtype, filters, compressor), trap = CODECS[how], pickle.dumps(Trap(tmp_path / "sprung"))
    layout = {"shape": [4], "chunks": [4], "dtype": dtype, "order": "C", "fill_value": None}
    told = {"zarr_format": 2, **layout, "filters": filters, "compressor": compressor}
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / ".zarray").write_text(json.dumps(told))
    (tmp_path / "x.zarr" / "0").write_bytes(zlib.compress(trap) if compressor == BYTES else trap)
    with pytest.raises(InputError, match=naming(f"{tmp_path}/x.zarr")):
        open_array(str(tmp_path / "x.zarr"))[...]
    assert not (tmp_path / "sprung").exists()
    pickle.loads(trap)
    assert (tmp_path / "sprung").exists()  # it would have sprung
