"""What a worker and the process of a user's function send each other: the function, its calls, and their answers.

The pickles are made by these two processes, or are the function and the objects that Dask has delivered as pickles.
Nothing comes from a file.
"""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import numpy as np

from distforest.errors import InputError
from distforest.sources.lazy.callbacks import is_async
from distforest.sources.lazy.identity import Items, name_of

if TYPE_CHECKING:
    from distforest.sources.lazy.callbacks import Lazy
    from distforest.sources.source import Floats


@dataclass(frozen=True)
class Code:
    """A function as it is sent to the process that calls it.

    Attributes
    ----------
    name
        ``module:function``, for messages.
    sha256
        sha256 of its signature, as the function of a name may change.
    is_async
        Whether it must be awaited.
    held
        The pickled function; or the name to import it by, which is refused if its signature has changed.
    digest
        sha256 of the pickle.
    """

    name: str
    sha256: str
    is_async: bool
    held: bytes | str
    digest: str = ""

    @classmethod
    def named(cls, lazy: Lazy, name: str) -> Code:
        """The function of a similarity, to be imported by its name."""
        return cls(name_of(lazy.function), str(lazy.signature["sha256"]), is_async(lazy.function), name)

    @classmethod
    def pickled(cls, lazy: Lazy) -> Code:
        """The function of a similarity, pickled.

        Raises
        ------
        InputError
            The function cannot be pickled.
        """
        name = name_of(lazy.function)
        try:
            held = cloudpickle.dumps(lazy.function)
        except Exception as error:  # an object may raise anything to refuse
            raise InputError(
                f"{name} cannot be sent to the workers ({type(error).__name__}: {error}); write a function of a module "
                "that makes what it needs when it is called"
            ) from error
        digest = hashlib.sha256(held).hexdigest()
        return cls(name, str(lazy.signature["sha256"]), is_async(lazy.function), held, digest)

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for equal functions."""
        return self.name, self.sha256, self.digest or str(self.held)


class Call(NamedTuple):
    """Two equally long sequences of objects, and the seconds that the answer may take."""

    left: Items
    right: Items
    timeout: float | None


class PartAnswer(NamedTuple):
    """A part of the answer to a call.

    Attributes
    ----------
    values
        Values of the next pairs.
    is_last
        Whether this is the last part.
    fault
        The error that stopped the call, if any.
    is_exact
        Whether it stopped at the pair right after ``values``, and not at a later one.
    """

    values: Floats = np.empty(0)
    is_last: bool = True
    fault: str | None = None
    is_exact: bool = False


def packed_message(content: object) -> bytes:
    """Pickle a message; `cloudpickle` pickles what only it can, such as objects of a notebook's classes.

    Examples
    --------
    >>> unpacked(packed_message([1, None]))
    [1, None]
    """
    try:
        return pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001  (an object may raise anything to refuse)
        return cloudpickle.dumps(content)


def unpacked(body: bytes) -> Any:
    """The content of a message."""
    return pickle.loads(body)  # noqa: S301  (made by these two processes)
