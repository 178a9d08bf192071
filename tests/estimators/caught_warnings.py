"""What a call is told: the messages of the package's warnings."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

from distforest.errors import DistforestWarning
from tests.messages import naming

if TYPE_CHECKING:
    from types import FunctionType


def warnings_of(call: FunctionType, *named: object) -> list[str]:
    """Return the messages of a call's warnings that name all this; all are the package's, at lines of the caller."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    assert {(one.category, one.filename) for one in found} <= {(DistforestWarning, call.__code__.co_filename)}
    return [message for one in found if re.search(naming(*named), message := str(one.message))]
