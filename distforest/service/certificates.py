"""A certificate authority for one cluster, and certificates for its scheduler, workers and clients.

Dask checks who signed a certificate, not which name it holds. So the authority signs for this cluster only, and its key
can be stored offline. A client's certificate is valid for connecting only: its holder cannot pose as a scheduler.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from distforest.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

ROLES = ("scheduler", "worker", "client")
"""Roles that have a certificate; those of scheduler and workers are also valid for answering."""

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
"""Names that every certificate of a scheduler or worker holds."""

MOST_DAYS = 3650
SLOW_CLOCK = timedelta(minutes=5)
"""How far the clock of another host may lag behind."""

_HOST = re.compile(r"(?!-)[a-z0-9_-]{1,63}(\.(?!-)[a-z0-9_-]{1,63})*", re.IGNORECASE)

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]{0,55}")

CONFIG = """\
# Dask reads this file where DASK_CONFIG names its folder.
distributed:
  comm:
    default-scheme: tls
    require-encryption: true
    tls:
      ca-file: {ca}
      scheduler: {{ cert: {scheduler}, key: {scheduler_key} }}
      worker: {{ cert: {worker}, key: {worker_key} }}
      client: {{ cert: {client}, key: {client_key} }}
"""


@dataclass(frozen=True)
class Made:
    """The certificates that were made: their folder, files, host names, and the end of their validity."""

    folder: str
    files: tuple[str, ...]
    hosts: tuple[str, ...]
    valid_until: datetime


def make(folder: str | os.PathLike[str], hosts: Sequence[str] = (), days: int = 365, users: Sequence[str] = ()) -> Made:
    """Make an authority and the certificates of a cluster, all keys new, in a new or empty folder.

    Parameters
    ----------
    folder
        Gets ``ca.pem``, ``scheduler.pem``, ``worker.pem`` and ``client.pem``, the key of each beside it
        (``ca-key.pem``, readable by its owner only), and ``dask.yaml``, which points Dask to them. Only its owner can
        read the folder.
    hosts
        DNS names and IP addresses of scheduler and workers; the local names of this host are added. Dask does not
        compare them; a browser does.
    days
        Days of validity from now, 1 to 3650.
    users
        Names of people, each of whom gets a client's certificate of their own, ``client-NAME.pem``; a service shows
        the name as the owner of their jobs.

    Raises
    ------
    InputError
        The folder holds something or cannot be one, a host is neither a name nor an address, a user's name is not one
        for a file, or ``days`` is out of range. Nothing is written then.
    """
    if not 1 <= days <= MOST_DAYS:
        raise InputError(f"days must be an integer from 1 to {MOST_DAYS}, found {days}")
    names = tuple(dict.fromkeys((*LOCAL_NAMES, *hosts)))
    subject = x509.SubjectAlternativeName([_general_name(name) for name in names])
    for user in users:
        if not _USER.fullmatch(user):
            raise InputError(f"a user is 1 to 56 of a-z, A-Z, 0-9, '.', '_', '@' and '-', not first; found {user!r}")
    path = _empty_folder(Path(folder).absolute())
    now = datetime.now(UTC).replace(microsecond=0)
    authority = _Authority.new(now, now + timedelta(days=days))
    texts = {"ca.pem": authority.text, "ca-key.pem": _key_text(authority.key)}
    for role in ROLES:
        texts |= authority.signed(role, f"distforest {role}", None if role == "client" else subject)
    for user in users:
        texts |= authority.signed(f"client-{user}", user, None)
    texts["dask.yaml"] = _config(path).encode()
    for name, text in texts.items():
        _write(path / name, text)
    return Made(str(path), tuple(texts), names, authority.end)


@dataclass(frozen=True)
class _Authority:
    """The key and certificate that sign the others, and the validity of all of them."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    start: datetime
    end: datetime

    @classmethod
    def new(cls, now: datetime, end: datetime) -> _Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _common_name(f"distforest authority {secrets.token_hex(4)}")  # so that two authorities differ
        start = now - SLOW_CLOCK
        made = (
            _builder(name, key, start, end)
            .issuer_name(name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(key, made, start, end)

    @property
    def text(self) -> bytes:
        """The certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def signed(self, file: str, name: str, subject: x509.SubjectAlternativeName | None) -> dict[str, bytes]:
        """A certificate and its key by file name; without a subject it is valid for connecting only."""
        key = ec.generate_private_key(ec.SECP256R1())
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
        made = (
            _builder(_common_name(name), key, self.start, self.end)
            .issuer_name(self.certificate.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if subject is not None:
            uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
            made = made.add_extension(subject, critical=False)
        made = made.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        text = made.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        return {f"{file}.pem": text, f"{file}-key.pem": _key_text(key)}


def _config(folder: Path) -> str:
    """The configuration of Dask; paths are JSON strings, which YAML reads whatever characters they hold."""
    names = ("ca", *ROLES, *(f"{role}-key" for role in ROLES))
    return CONFIG.format(**{name.replace("-", "_"): json.dumps(f"{folder / name}.pem") for name in names})


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    name: x509.Name, key: ec.EllipticCurvePrivateKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    """A builder with the fields that all certificates have."""
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    """A host name or IP address in the form of a certificate."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not _HOST.fullmatch(host) or len(host) > 253:
            raise InputError(
                f"a host is a DNS name in ASCII, such as 'scheduler.example.org', or an IP address; found {host!r}"
            ) from None
    return x509.DNSName(host)


def _key_text(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _empty_folder(folder: Path) -> Path:
    """Make a folder that only its owner can read, or use an empty one; refuse one that is not empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = sorted(entry.name for entry in folder.iterdir())
        if found:
            raise InputError(f"{folder}: a new or empty folder was expected, found one with {found[0]!r}; name another")
        folder.chmod(0o700)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made a folder for certificates ({error})") from error
    return folder


def _write(path: Path, content: bytes) -> None:
    """Write a new file; a key is readable by its owner only, from the first byte on."""
    mode = 0o600 if path.name.endswith("-key.pem") else 0o644
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
