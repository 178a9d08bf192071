"""Programs that tests call: of this environment, though nobody has activated it, and of this host."""

from __future__ import annotations

import os
import shutil
import sysconfig

PATH = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
"""Where programs are looked for: beside this interpreter first, as if its environment were activated; and where daemons
lie, which not everybody's path names."""


def program(name: str) -> str | None:
    """The path of a program; None if it is not here."""
    return shutil.which(name, path=PATH)
