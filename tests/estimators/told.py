"""What a call is told: the messages of the package's warnings."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

from distforest.errors import DistforestWarning
from tests.messages import naming

if TYPE_CHECKING:
    from types import FunctionType


def told_by(call: FunctionType, *named: object) -> list[str]:
    """Return the messages of a call's warnings that name all this; each warning is at a line of the caller's file."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    own = [one for one in found if one.category is DistforestWarning and re.search(naming(*named), str(one.message))]
    assert {one.filename for one in own} <= {call.__code__.co_filename}
    return [str(one.message) for one in own]
