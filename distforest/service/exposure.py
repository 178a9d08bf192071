"""What protects a scheduler: until when certificates are valid, whose they are, and where it listens without TLS."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
from distributed.comm import parse_address, parse_host_port

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distributed import Scheduler, Security

PAGES_CERTIFICATE = "distributed.scheduler.dashboard.tls.cert"
"""Dask's setting of the certificate for the scheduler's pages."""


def expiries(security: Security, role: str) -> dict[str, float]:
    """The Unix times at which the certificates of a process expire, by the name of their file.

    The package cryptography reads them, which the extra ``tls`` installs; without it, nothing is known.
    """
    try:
        from cryptography import x509  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        return {}
    files = security.get_tls_config_for_role(role)
    named = {files["ca_file"], files["cert"], dask.config.get(PAGES_CERTIFICATE, None) if role == "scheduler" else None}
    found = {}
    for path in filter(None, named):
        with suppress(OSError, ValueError):  # Dask refuses to start with a file that it cannot use
            is_content = "\n" in path
            text = path.encode() if is_content else Path(path).read_bytes()
            ends = [one.not_valid_after_utc.timestamp() for one in x509.load_pem_x509_certificates(text)]
            found["in memory" if is_content else str(path)] = min(ends)
    return found


def common_name(certificate: Mapping[str, Any] | None) -> str | None:
    """The common name of the subject of a certificate, as `ssl.SSLSocket.getpeercert` returns it.

    Examples
    --------
    >>> common_name({"subject": ((("organizationName", "Analytical"),), (("commonName", "ada"),))})
    'ada'
    """
    subject = (pair for part in (certificate or {}).get("subject", ()) for pair in part)
    return next((value for name, value in subject if name == "commonName"), None)


def open_address(scheduler: Scheduler) -> str | None:
    """The address at which a scheduler listens to other hosts without TLS; None if there is none."""
    return next((at.listen_address for at in scheduler.listeners if _is_open(at.listen_address)), None)


def _is_open(address: str) -> bool:
    """Whether processes of other hosts reach an address, and may do without a certificate.

    Examples
    --------
    >>> [_is_open(at) for at in ("tcp://0.0.0.0:1", "tcp://[::1]:1", "tls://0.0.0.0:1", "inproc://10.0.0.7/1/2")]
    [True, False, False, False]
    """
    protocol, place = parse_address(address)
    return protocol in {"tcp", "ws"} and not ipaddress.ip_address(parse_host_port(place, 0)[0]).is_loopback
