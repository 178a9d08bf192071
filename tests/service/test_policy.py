"""What an operator does not allow is refused, with its place in the spec and the reason; what is allowed passes."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import fsspec.core
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError, SpecError
from distforest.service.policy import Policy
from tests.messages import naming


def faults_of(policy: Policy, *addresses: str) -> tuple[str, ...]:
    """What the policy says of addresses in the place "output"; nothing if it allows them."""
    faults = []
    for address in addresses:
        try:
            policy.check({"output": address}, {}, None)
        except SpecError as error:
            faults += error.faults
    return tuple(faults)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is allowed, with links that stay and links that leave, and folders beside it."""
    root = tmp_path_factory.mktemp("policy").resolve()
    for name in ("data/a", "database", "secret"):
        (root / name).mkdir(parents=True)
    links = {"in": "a", "out": "../secret", "up": "..", "loop": "loop", "gone": "/nowhere/at/all"}
    for name, target in links.items():
        (root / "data" / name).symlink_to(target)
    (root / "alias").symlink_to("data")
    return root


# --- addresses --------------------------------------------------------------------------------------------


def test_what_lies_below_a_prefix_is_allowed(root: Path) -> None:
    policy = Policy(prefixes=(f"{root}/data", "s3://forests/ours/", "memory://job"))
    allowed = [
        f"{root}/data",
        f"{root}/data/",
        f"{root}/data/new.zarr/X",
        f"file://{root}/data/a/x.zarr",
        f"{root}/data/in/x.zarr",
        f"{root}/alias/x.zarr",
        f"{root}/data/100% of it?#.zarr",
        "s3://forests/ours",
        "s3a://forests/ours/wine.zarr/X",
        "memory://job/x.zarr",
    ]
    assert faults_of(policy, *allowed) == ()


def test_a_prefix_may_be_a_link_or_the_root(root: Path) -> None:
    assert faults_of(Policy(prefixes=(f"{root}/alias",)), f"{root}/data/x.zarr", f"{root}/alias/x.zarr") == ()
    assert faults_of(Policy(prefixes=("/",)), f"{root}/data/out/x.zarr", "/x.zarr") == ()


def test_a_prefix_is_whole_parts_of_a_path(root: Path) -> None:
    policy = Policy(prefixes=(f"{root}/data", "s3://forests/ours"))
    strangers = (f"{root}/database/x.zarr", f"{root}/dat", str(root), "s3://forests/oursandmore", "s3://forest/ours/x")
    found = faults_of(policy, *strangers)
    assert len(found) == len(strangers)
    assert re.match(naming("output: ", f"'{root}/database/x.zarr'", f"'{root}/data', 's3://forests/ours'"), found[0])


def test_the_same_path_in_another_store_is_outside() -> None:
    policy = Policy(prefixes=("s3://forests/ours", "/forests"))
    found = faults_of(policy, "gs://forests/ours/x", "memory://forests/ours/x", "s3://forests/x", "/forests/ours")
    assert len(found) == 3


@pytest.mark.parametrize("link", ["out", "up/secret", "gone", "loop", "up", "in/../out"])
def test_a_link_out_of_the_prefixes_is_refused(root: Path, link: str) -> None:
    allowed = f"{root}/data"
    found = faults_of(Policy(prefixes=(allowed,)), f"{allowed}/{link}/x.zarr")
    expected = {"loop": 0, "in/../out": 1}.get(link, 1)  # a link to itself leads nowhere, not out
    assert len(found) == expected
    if link == "out":
        assert re.match(naming(f"'{root}/secret/x.zarr'", f"'{allowed}'"), found[0])


def test_a_link_that_comes_after_the_submission_is_seen_at_the_start(root: Path) -> None:
    policy, address = Policy(prefixes=(f"{root}/data",)), root / "data" / "later"
    assert faults_of(policy, f"{address}/x.zarr") == ()
    address.symlink_to("../secret")
    assert len(faults_of(policy, f"{address}/x.zarr")) == 1


@pytest.mark.parametrize("inside", ["c/0/1", "c/link"])
def test_a_link_inside_a_group_is_refused_where_there_are_prefixes(inside: str, tmp_path: Path) -> None:
    group = tmp_path / "data" / "x.zarr"
    (group / "c" / "0").mkdir(parents=True)
    (group / "c" / "0" / "0").write_bytes(b"a chunk")
    policy, asked = Policy(prefixes=(f"{tmp_path}/data",)), {"input.features": str(group)}
    policy.check(asked, {}, None)
    (group / inside).symlink_to(tmp_path / "secret")
    with pytest.raises(SpecError) as caught:
        policy.check(asked, {}, None)
    (fault,) = caught.value.faults
    assert re.match(naming("input.features: ", f"link '{inside}'"), fault)
    Policy().check(asked, {}, None)


def test_what_is_reserved_is_refused_within_the_prefixes_too(root: Path) -> None:
    policy = Policy(prefixes=(f"{root}/data", "s3://forests"), reserved=(f"{root}/data/a", "s3://forests/jobs"))
    inside = (f"{root}/data/a", f"{root}/data/a/x.zarr", f"{root}/data/in/x.zarr", "s3a://forests/jobs/1/work/x.zarr")
    found = faults_of(policy, *inside)
    assert len(found) == len(inside)
    assert all("keeps its jobs" in fault for fault in found)
    assert faults_of(policy, f"{root}/data/ab/x.zarr", "s3://forests/jobs2/x.zarr") == ()
    assert len(faults_of(Policy(reserved=("s3://forests/jobs",)), "s3://forests/jobs/x.zarr")) == 1


REFUSED = {
    "data.zarr/X": "relative",
    "": "relative",
    "~/x.zarr": "relative",
    "file://data/x.zarr": "relative",
    "file:/data/x.zarr": "relative",
    "/data/../etc": "'..'",
    "/data/./x": "'..'",
    "/data/%2e%2e/etc": "'..'",
    "/data/%252E%252e/etc": "'..'",
    "/data/a%2f..%2fb": "'..'",
    "/data/a\\..\\etc": "'..'",
    "s3://forests/../theirs": "'..'",
    "s3://../x": "'..'",
    "/data/" + "%25" * 20 + "2e": None,
    "/data/%" + "25" * 20 + "2e": "percent-encoded",
    "//data/x": "empty",
    "s3://forests//x": "empty",
    "memory:///x": "empty",
    "s3://": "bucket",
    "s3:///": "bucket",
    "simplecache::s3://forests/x": "chains",
    "zip://x::/data/x.zip": "chains",
    "/data/x::/etc": "chains",
    "http://localhost/x.zarr": "protocol 'http'",
    "https://localhost/x.zarr": "protocol 'https'",
    "zip:///data/x.zip": "protocol 'zip'",
    "reference://x": "protocol 'reference'",
    "filecache://x": "protocol 'filecache'",
    "github://a:b@main/x": "protocol 'github'",
    "data://x": "protocol 'data'",
    "S3://forests/x": "protocol 'S3'",
    "/data/s3://forests/x": "protocol '/data/s3'",
    "://x": "protocol ''",
    "s3://key:secret@forests/x": "password",
    "abfs://key:secret@account/x": "password",
    "s3://forests/x?versionId=1": "'?' or '#'",
    "gs://forests/x#1": "'?' or '#'",
    "/data/x\0y": "printable",
    "/data/x\ny": "printable",
    "/data/x\ud800y": "printable",
    "/data/\u202ex": "printable",
}


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_hides_where_it_leads_is_refused_without_prefixes_too(address: str) -> None:
    found, expected = faults_of(Policy(), address), REFUSED[address]
    if expected is None:  # odd, but a name like any other
        assert found == ()
    else:
        assert len(found) == 1
        assert found[0].startswith("output: ")
        assert expected in found[0]


def test_without_prefixes_any_store_may_be_named() -> None:
    assert faults_of(Policy(), "/etc/x", "s3://any/x", "gs://any/x", "abfs://container@account/x", "memory://x") == ()


PARTS = [
    *("", "a", "in", "out", "up", "..", ".", "%2e%2e", "%2E.", "..%2f..", "\\.."),
    *("~", "data", "secret", "x::y", "@", "?"),
]
PIECES = st.lists(st.sampled_from(PARTS), max_size=6)
STARTS = st.sampled_from(["", "file://", "file:", "local://", "//", "memory://", "s3://", "simplecache::", "zip://"])


BASES = st.just("data") | st.sampled_from(["database", "alias", ""])


@pytest.mark.slow
@settings(max_examples=400)
@given(start=STARTS, base=BASES, pieces=PIECES)
def test_no_address_that_is_allowed_leads_out(root: Path, start: str, base: str, pieces: list[str]) -> None:
    """What fsspec, zarr and the file system make of an address that is allowed lies below the prefix."""
    address = start + "/".join([str(root), base, *pieces])
    if faults_of(Policy(prefixes=(f"{root}/data",)), address):
        return
    fs, path = fsspec.core.url_to_fs(address)
    assert type(fs).__name__ == "LocalFileSystem"
    assert Path(path).resolve().is_relative_to(root / "data")
    assert Path(address.removeprefix("file://")).resolve().is_relative_to(root / "data")


# --- functions --------------------------------------------------------------------------------------------


def faults_of_function(policy: Policy, name: str) -> tuple[str, ...]:
    try:
        policy.check({}, {"input.similarity.function": name}, None)
    except SpecError as error:
        return error.faults
    return ()


def test_only_listed_functions_are_called() -> None:
    policy = Policy(callbacks=("ours:alike", "ours.more:*", "ours.kinds:Kind.alike"))
    for name in ("ours:alike", "ours.more:anything", "ours.kinds:Kind.alike"):
        assert faults_of_function(policy, name) == ()
    for name in ("os:system", "ours:alike.run", "ours:other", "ours.mo:x", "ours.more.x:y", "ours", "", "ours.more:*"):
        found = faults_of_function(policy, name)
        assert len(found) == 1, name
        assert found[0].startswith(f"input.similarity.function: {name!r} ")


def test_every_name_of_a_module_is_none_of_what_it_holds() -> None:
    policy = Policy(callbacks=("ours:*",))
    for name in ("ours:os.system", "ours:__loader__", "ours:_private", "ours:", "ours: x", "ours:a:b"):
        assert len(faults_of_function(policy, name)) == 1, name


def test_nothing_is_listed_by_default() -> None:
    (fault,) = faults_of_function(Policy(), "os:system")
    assert re.match(naming("input.similarity.function: 'os:system' ", "no function"), fault)


def test_installed_entry_points_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("edit", "rapid:edit", "distforest.similarity")
    points = importlib.metadata.EntryPoints([point])
    monkeypatch.setattr(importlib.metadata, "entry_points", points.select)
    assert faults_of_function(Policy(), "edit") == ()
    (fault,) = faults_of_function(Policy(callbacks=("ours:alike",)), "rapid:edit")
    assert fault.endswith("'ours:alike', 'edit'")


# --- sizes, and all at once -------------------------------------------------------------------------------


def test_a_forest_that_is_too_large_is_refused() -> None:
    policy = Policy(max_trees=10)
    policy.check({}, {}, 10)
    with pytest.raises(SpecError, match=naming("params.n_estimators: ", "11 trees", 10)):
        policy.check({}, {}, 11)


def test_a_text_is_measured_in_bytes() -> None:
    policy = Policy(max_spec_bytes=4)
    policy.read("éé")
    policy.read("")
    with pytest.raises(SpecError, match=naming("spec: ", "4 bytes", 5)):
        policy.read("ééa")
    with pytest.raises(SpecError, match=naming("spec: ", "4 bytes", 6)):
        policy.read("\ud800\ud800")


@pytest.mark.parametrize("given", [None, 5, b"{}", {}, ["{}"]])
def test_what_is_no_text_is_refused(given: object) -> None:
    with pytest.raises(SpecError, match=naming("spec: ", "JSON")):
        Policy().read(given)


def test_all_faults_are_reported_at_once() -> None:
    addresses = {"input.features": "x.zarr/X", "input.similarity.objects": "/data/o", "output": "http://x/y.zarr"}
    with pytest.raises(SpecError) as caught:
        Policy(prefixes=("/data",), max_trees=1).check(addresses, {"input.similarity.function": "os:system"}, 2)
    places = [fault.partition(":")[0] for fault in caught.value.faults]
    assert places == ["input.features", "output", "input.similarity.function", "params.n_estimators"]


def test_a_long_address_is_cut_in_the_message() -> None:
    (fault,) = faults_of(Policy(prefixes=("/data",)), "/" + "a" * 60_000)
    assert len(fault) < 300


# --- what an operator may say -----------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["data", "", "s3://", "/data/../etc", "http://x", "zip::/data"])
def test_a_prefix_that_means_nothing_is_refused_at_the_start(prefix: str) -> None:
    with pytest.raises(InputError, match=naming("prefix", repr(prefix))):
        Policy(prefixes=("/data", prefix))


@pytest.mark.parametrize("name", ["alike", "ours", "ours:", ":alike", "*", "ours:*.x", "*:*", "ours alike", "our-s:x"])
def test_a_callback_that_means_nothing_is_refused_at_the_start(name: str) -> None:
    with pytest.raises(InputError, match=naming(repr(name), "'module:function'", "'module:*'")):
        Policy(callbacks=(name,))


@pytest.mark.parametrize("name", ["max_spec_bytes", "max_trees", "max_jobs"])
def test_a_limit_below_one_is_refused_at_the_start(name: str) -> None:
    with pytest.raises(InputError, match=naming(name, 1, 0)):
        Policy(**{name: 0})
