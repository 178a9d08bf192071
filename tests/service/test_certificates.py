"""Certificates: who is let in by whom, what lies on disk, and what is refused before anything is written."""

from __future__ import annotations

import os
import ssl
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dask.config
import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from distforest.command_line.certificates import certificates
from distforest.errors import InputError
from distforest.service.certificates import MOST_DAYS, ROLES, make
from tests.messages import naming
from tests.service.processes import security

FILES = {"ca.pem", "ca-key.pem", "dask.yaml", *(f"{role}{end}" for role in ROLES for end in (".pem", "-key.pem"))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates in a folder whose name YAML would read as something else."""
    folder = tmp_path_factory.mktemp("tls") / "a: b #'\"c"
    make(folder, ["10.1.2.3", "scheduler.example.org"], 2)
    return folder


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of another authority."""
    folder = tmp_path_factory.mktemp("other")
    make(folder)
    return folder


def tls_context(folder: Path, role: str, *, answers: bool) -> ssl.SSLContext:
    """The tls_context with which Dask answers or connects in a role."""
    asked = security(folder)
    arguments = asked.get_listen_args(role) if answers else asked.get_connection_args(role)
    found: ssl.SSLContext = arguments["ssl_context"]
    return found


def shake(answering: ssl.SSLContext, connecting: ssl.SSLContext, host: str | None = None) -> None:
    """Let two ends shake hands in memory; raises what either of them raises."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends: list[Any] = [
        connecting.wrap_bio(back, there, server_hostname=host),
        answering.wrap_bio(there, back, server_side=True),
    ]
    for _ in range(5):
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
    assert not ends


@pytest.mark.parametrize(
    ("answers", "connects"),
    [("scheduler", "worker"), ("scheduler", "client"), ("worker", "scheduler"), ("worker", "worker")],
)
def test_the_roles_let_each_other_in(folder: Path, answers: str, connects: str) -> None:
    shake(tls_context(folder, answers, answers=True), tls_context(folder, connects, answers=False))


@pytest.mark.parametrize("role", ROLES)
def test_a_certificate_of_another_authority_is_refused_by_both_ends(folder: Path, other: Path, role: str) -> None:
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shake(tls_context(folder, "scheduler", answers=True), tls_context(other, role, answers=False))
    trusting = tls_context(other, role, answers=False)
    trusting.load_verify_locations(folder / "ca.pem")  # it trusts the scheduler, but is not trusted
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shake(tls_context(folder, "scheduler", answers=True), trusting)


def test_who_has_no_certificate_is_refused(folder: Path) -> None:
    bare = ssl.create_default_context(cafile=folder / "ca.pem")
    bare.check_hostname = False
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake(tls_context(folder, "scheduler", answers=True), bare)


def test_a_client_cannot_pass_for_a_scheduler(folder: Path) -> None:
    with pytest.raises(ssl.SSLError, match=r"CERTIFICATE_VERIFY_FAILED.*purpose"):
        shake(tls_context(folder, "client", answers=True), tls_context(folder, "worker", answers=False))


def test_a_client_cannot_sign_others(folder: Path, tmp_path: Path) -> None:
    issuer = x509.load_pem_x509_certificate((folder / "client.pem").read_bytes())
    key: Any = serialization.load_pem_private_key((folder / "client-key.pem").read_bytes(), None)
    forged = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "distforest scheduler")]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(issuer.not_valid_before_utc)
        .not_valid_after(issuer.not_valid_after_utc)
        .sign(key, hashes.SHA256())
    )
    chain = [forged.public_bytes(serialization.Encoding.PEM), (folder / "client.pem").read_bytes()]
    (tmp_path / "chain.pem").write_bytes(b"".join(chain))
    stranger = ssl.create_default_context(cafile=folder / "ca.pem")
    stranger.check_hostname = False
    stranger.load_cert_chain(tmp_path / "chain.pem", folder / "client-key.pem")
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shake(tls_context(folder, "scheduler", answers=True), stranger)


def test_only_the_authority_signs_and_nobody_in_its_name(folder: Path) -> None:
    found = {name: x509.load_pem_x509_certificate((folder / f"{name}.pem").read_bytes()) for name in ("ca", *ROLES)}
    bounds = {name: one.extensions.get_extension_for_class(x509.BasicConstraints) for name, one in found.items()}
    assert all(bound.critical for bound in bounds.values())
    assert {name: bound.value.ca for name, bound in bounds.items()} == {"ca": True, **dict.fromkeys(ROLES, False)}
    assert bounds["ca"].value.path_length == 0


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "10.1.2.3", "scheduler.example.org"])
def test_those_who_look_at_names_find_the_hosts(folder: Path, host: str) -> None:
    strict = ssl.create_default_context(cafile=folder / "ca.pem")
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    strict.load_cert_chain(folder / "client.pem", folder / "client-key.pem")
    shake(tls_context(folder, "scheduler", answers=True), strict, host)
    with pytest.raises(ssl.SSLError, match="mismatch"):
        shake(tls_context(folder, "scheduler", answers=True), strict, "elsewhere.example.org")


def test_dask_requires_encryption_by_the_folder_alone(folder: Path) -> None:
    config = dask.config.collect([str(folder)], env={})
    assert config["distributed"]["comm"]["default-scheme"] == "tls"
    assert security(folder).require_encryption is True
    assert security(folder).tls_ca_file == str(folder / "ca.pem")


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)  # nothing is taken away but by ourselves
    try:
        made = make(tmp_path / "new" / "tls")
    finally:
        os.umask(before)
    folder = tmp_path / "new" / "tls"
    assert {path.name for path in folder.iterdir()} == set(made.files) == FILES
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert {mode for name, mode in modes.items() if name.endswith("-key.pem")} == {0o600}
    assert {mode for name, mode in modes.items() if not name.endswith("-key.pem")} == {0o644}


def test_a_user_has_a_certificate_in_their_name(tmp_path: Path) -> None:
    made = make(tmp_path / "tls", users=["ada", "c.babbage"])
    assert set(made.files) - FILES == {
        f"client-{name}{end}.pem" for name in ("ada", "c.babbage") for end in ("", "-key")
    }
    [found] = x509.load_pem_x509_certificates((tmp_path / "tls" / "client-ada.pem").read_bytes())
    assert [one.value for one in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["ada"]
    with pytest.raises(x509.ExtensionNotFound):  # valid for connecting only, as any client's
        found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    for name in ("", "../ada", "ada l", "-a", "a" * 57):
        with pytest.raises(InputError, match=naming(repr(name))):
            make(tmp_path / "none", users=[name])
    assert not (tmp_path / "none").exists()


def test_an_empty_folder_becomes_its_owners_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_all_are_valid_from_now_for_the_days(folder: Path, tmp_path: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    made = make(tmp_path / "tls", days=3)
    after = datetime.now(UTC)
    assert before + timedelta(days=3) <= made.valid_until <= after + timedelta(days=3)
    for name in ("ca", *ROLES):
        found = x509.load_pem_x509_certificate((tmp_path / "tls" / f"{name}.pem").read_bytes())
        assert before - timedelta(hours=1) < found.not_valid_before_utc < before
        assert found.not_valid_after_utc == made.valid_until


def test_no_two_are_alike(folder: Path, other: Path) -> None:
    found = [
        x509.load_pem_x509_certificate((own / f"{name}.pem").read_bytes())
        for own in (folder, other)
        for name in ("ca", *ROLES)
    ]
    assert len({one.serial_number for one in found}) == len(found)
    assert len({one.public_key().public_numbers().x for one in found}) == len(found)  # type: ignore[union-attr]
    assert len({one.issuer for one in found}) == 2


# --- refusals ---------------------------------------------------------------------------------------------


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=naming(tmp_path, "'notes.txt'")):
        make(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    made = make(tmp_path / "tls")
    before = {name: (tmp_path / "tls" / name).read_bytes() for name in made.files}
    with pytest.raises(InputError, match=naming(tmp_path / "tls", "'ca-key")):
        make(tmp_path / "tls")
    assert before == {name: (tmp_path / "tls" / name).read_bytes() for name in made.files}


@pytest.mark.parametrize(
    "host",
    [
        "",
        "a b",
        "tcp://10.0.0.1",
        "10.0.0.1:8786",
        "grün.example",
        "a/b",
        "-a",
        "a..b",
        "x" * 64,
        "*.a",
        "a\n",
        "a." * 130 + "a",
    ],
)
def test_a_host_that_is_none_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(InputError, match=naming("DNS", repr(host))):
        make(tmp_path / "tls", ["fine.example.org", host])
    assert not (tmp_path / "tls").exists()


@pytest.mark.parametrize("days", [0, -1, MOST_DAYS + 1])
def test_days_out_of_range_are_refused(tmp_path: Path, days: int) -> None:
    with pytest.raises(InputError, match=naming("days", MOST_DAYS, days)):
        make(tmp_path / "tls", days=days)
    assert not (tmp_path / "tls").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "tls"):
        with pytest.raises(InputError, match=naming(place)):
            make(place)


# --- the command ------------------------------------------------------------------------------------------


def test_the_command_tells_what_it_made_and_how_to_use_it(tmp_path: Path) -> None:
    asked = [str(tmp_path / "tls"), "--host", "a.example.org", "--host", "10.0.0.1", "--days", "7"]
    report = CliRunner().invoke(certificates, asked, standalone_mode=False, catch_exceptions=False).return_value
    assert report.answer["folder"] == str(tmp_path / "tls")
    assert set(report.answer["files"]) == FILES
    assert report.answer["hosts"] == ["localhost", "127.0.0.1", "::1", "a.example.org", "10.0.0.1"]
    assert f"export DASK_CONFIG={tmp_path / 'tls'}" in dict(report.lines)["use"]


def test_without_cryptography_the_command_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "distforest.service.certificates")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(InputError, match=naming("distforest[tls]")):
        CliRunner().invoke(certificates, [str(tmp_path)], standalone_mode=False, catch_exceptions=False)
