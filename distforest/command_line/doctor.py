# ruff: noqa: PLC0415
"""The command `doctor`, which finds problems of this machine, a scheduler and its workers.

`distforest.command_line.cli` registers it; as there, imports are inside the command.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from distforest.command_line.commands import MEND_CODE, print_report
from distforest.command_line.service import asks_service

if TYPE_CHECKING:
    from collections.abc import Iterable

    from distforest.command_line.reports import Report
    from distforest.service.checkup import Disk
    from distforest.service.doctor import Findings, Patient
    from distforest.service.whereabouts import Whereabouts


@click.command(short_help="Examine this machine, or a scheduler and its workers.")
@asks_service
@click.option(
    "--job-root", metavar="URL", help="Examine this job root.  [env: DISTFOREST_JOB_ROOT; default: the service's]"
)
@click.pass_context
def doctor(ctx: click.Context, /, where: Whereabouts) -> None:
    """Examine this machine and, if one is named, a scheduler and its workers, and report problems.

    The command checks versions, threads, compiled kernels, scratch folders, the job root, workers, clocks and
    certificates. It writes a small file into the job root and removes it. Exit code 0: no problems; 1: problems found.
    """
    from distforest.service.doctor import examine_cluster, examine_here, to_mend
    from distforest.service.whereabouts import JOB_ROOT

    root = where.job_root or os.environ.get(JOB_ROOT)
    found = examine_cluster(where.service(), root) if where.names_scheduler else examine_here(root, where.security())
    print_report(ctx, _reported(found))
    ctx.exit(MEND_CODE if to_mend(found) else 0)


def _reported(found: Findings) -> Report:
    """Report the findings, the problems, and notes."""
    from distforest.command_line.reports import Report
    from distforest.service.doctor import remarks, to_mend

    mend, notes = to_mend(found), remarks(found)
    answer: dict[str, object] = {
        "healthy": not mend,
        "mend": mend,
        "notes": notes,
        "processes": list(map(_process, found.patients)),
        "job_root": None if found.root is None else {**found.root.disk._asdict(), "compares": found.root.compares},
        "service": found.service,
    }
    lines = [line for group in _grouped(found.patients) for line in _lines(group)]
    if found.root is not None:
        compares = "compares before it writes" if found.root.compares else "does not compare before it writes"
        lines.append(("job root", f"{_disk_in_words(found.root.disk)}, {compares}"))
    lines += [("note", text) for text in notes]
    lines += [("mend", text) for text in mend] or [("healthy", "yes")]
    return Report(answer, lines)


def _process(patient: Patient) -> dict[str, object]:
    """Return the findings on one process, for JSON."""
    entry: dict[str, object] = {"role": patient.role, "address": patient.address or None, "fault": patient.fault}
    if patient.threads:
        entry["threads"] = patient.threads
    if patient.checkup is not None:
        checkup = patient.checkup
        entry |= {"host": checkup.host, "cores": checkup.cores, "versions": checkup.versions}
        entry |= {"kernels": checkup.kernels._asdict(), "scratch": checkup.scratch._asdict()}
        entry |= {"certificates": dict(checkup.certificates), "open_address": checkup.open_address}
    if patient.clock is not None:
        entry["clock"] = patient.clock._asdict()
    return entry


def _grouped(patients: Iterable[Patient]) -> list[list[Patient]]:
    """Group processes by role and host."""
    groups: dict[object, list[Patient]] = {}
    for patient in patients:
        own = patient.checkup
        same = (own.host, tuple(own.versions.items()), own.kernels[:2], own.scratch[:2]) if own else patient.address
        groups.setdefault((patient.role, same), []).append(patient)
    return list(groups.values())


def _lines(group: list[Patient]) -> list[tuple[str, str]]:
    """Return the findings on processes of one host, as lines of a report."""
    from distforest.amounts import counted

    first, addresses = group[0], " ".join(patient.address for patient in group if patient.address)
    if first.checkup is None:
        return [(first.role, f"{addresses}: not examined")]
    own, n_threads = first.checkup, sum(patient.threads for patient in group)
    size = f"{counted(n_threads, 'thread')}, " if n_threads else ""
    kept = f"{own.kernels.n_kept:,} in {own.kernels.folder}" if own.kernels.folder else "not kept"
    lines = [
        (first.role, f"{own.host}, {size}{counted(own.cores, 'core')}" + (f": {addresses}" if addresses else "")),
        ("  versions", ", ".join(f"{name} {number}" for name, number in own.versions.items())),
        ("  kernels", kept),
        ("  scratch", _disk_in_words(own.scratch)),
    ]
    if clocks := [patient.clock for patient in group if patient.clock]:
        most = max(clocks, key=lambda clock: abs(clock.ahead))
        lines.append(("  clock", f"{most.ahead:+.3f} s from this machine's, give or take {most.error:.3f} s"))
    return lines


def _disk_in_words(disk: Disk) -> str:
    from distforest.amounts import in_bytes

    free = "" if disk.free is None else f", {in_bytes(disk.free)} free"
    kind = f", {disk.filesystem}" if disk.filesystem else ""
    return f"{disk.folder}{kind}{free}" if disk.fault is None else f"{disk.folder}: cannot be used"


COMMANDS = (doctor,)
