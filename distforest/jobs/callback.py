"""A similarity function by its name in a job's spec, small enough to be sent with every task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distforest.errors import InputError
from distforest.sources.lazy.callbacks import Lazy
from distforest.sources.lazy.calling import Code
from distforest.sources.lazy.identity import resolve
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distforest.growth.parameters import Value
    from distforest.jobs.spec import Relation
    from distforest.sources.staging import Staged


@dataclass(frozen=True)
class Callback:
    """The arguments of `Lazy`, with the name of the function; ``sha256`` is the digest of its signature at staging."""

    function: str
    sha256: str
    kind: str = "similarity"
    symmetric: bool = True
    batch_size: int = 1000
    concurrency: int = 1
    retries: int = 2
    timeout: float | None = None
    budget: int | None = None
    ledger: str | None = None
    share: str = "all"

    @classmethod
    def from_function(cls, function: str, options: Mapping[str, Any]) -> Callback:
        """Return the callback of a spec; raise InputError if it cannot be imported or its options conflict."""
        lazy = Lazy(resolve(function), **options)
        return cls(function, str(lazy.signature["sha256"]), **options)

    @classmethod
    def from_relation(cls, similarity: Relation, output: str) -> Callback:
        """Return the callback of a lazy similarity, with a ledger beside the output if it needs one and names none.

        Raises
        ------
        InputError
            The function cannot be imported, its options contradict each other, or there is no place for the ledger.
        """
        of_others = ("objects", "weight")
        options: dict[str, Value] = {name: value for name, value in similarity.options.items() if name not in of_others}
        options["kind"] = options.pop("measure", "distance")  # a ground truth contains distances
        if options.get("share", "all") == "all" and options["ledger"] is None:
            if not Folder(output).is_local:
                fault = f"the ledger must be a local file, and there can be none beside {output}"
                raise InputError(f"{fault}; name it as 'ledger'")
            options["ledger"] = f"{output}.ledger"
        return cls.from_function(similarity.address, options)

    def lazy(self) -> Lazy:
        """Return the similarity, with its function imported in this process.

        Raises
        ------
        InputError
            The function is missing here, or is not the one that the job was staged with.
        """
        names = [name for name in self.__dataclass_fields__ if name not in ("function", "sha256")]
        lazy = Lazy(resolve(self.function), **{name: getattr(self, name) for name in names})
        found = str(lazy.signature["sha256"])
        if found != self.sha256:
            raise InputError(
                f"{self.function}: another version of the function is installed here, or it has another state: "
                f"sha256 {self.sha256!r} was expected, found {found!r}; install one version everywhere and start again"
            )
        return lazy

    def code(self, lazy: Lazy) -> Code:
        """Return the function in the form in which it is sent to another process: by name."""
        return Code.named(lazy, self.function)

    @property
    def decides(self) -> dict[str, object]:
        """The part of the callback that determines the values, and which of them a forest reads."""
        return {name: getattr(self, name) for name in ("function", "sha256", "kind", "symmetric", "budget")}


@dataclass(frozen=True)
class ListedCallback:
    """A function among several similarities: its position in their list, and the objects that it is called with."""

    place: int
    callback: Callback
    objects: Staged

    @property
    def decides(self) -> list[object]:
        """The part of the callback that determines the values, and which of them a forest reads."""
        return [self.place, self.callback.decides, self.objects.sha256]


@dataclass(frozen=True)
class TruthCallback:
    """A function whose distances are the ground truth: the objects that it is called with, and the cost of its calls.

    ``origin`` is its entry in a forest's provenance once the function was called, and None before.
    """

    callback: Callback
    objects: Staged
    origin: Mapping[str, object] | None = None

    @property
    def decides(self) -> list[object]:
        """The part of the callback that determines which distances are known."""
        return [self.callback.decides, self.objects.sha256]

    @property
    def evaluations(self) -> int:
        """Number of pairs that were paid for."""
        return 0 if self.origin is None else int(str(self.origin["evaluations"]))
