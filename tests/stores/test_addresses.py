"""What goes wrong with an input is told by its name, and stays what it is for who tries again."""

from __future__ import annotations

import errno

import pytest

from distforest.errors import InputError
from distforest.stores.addresses import may_pass, naming


def test_a_fault_of_an_input_begins_with_its_name() -> None:
    with pytest.raises(InputError, match=r"^input\.labels: .*too many"), naming("input.labels", "y.zarr"):
        raise InputError("too many")


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectionResetError("reset"), True),
        (FileNotFoundError(errno.ENOENT, "nothing there"), False),
        (PermissionError("no credentials"), False),
        (OSError(errno.EINVAL, "invalid range"), False),
    ],
)
def test_an_error_of_a_store_keeps_its_kind_and_number(error: OSError, passes: bool) -> None:
    with (
        pytest.raises(type(error), match=r"^queries: s3://data/X ") as told,
        naming("queries", "s3://data/X"),
    ):
        raise error
    assert told.value.errno == error.errno
    assert may_pass(error, "s3://data/X") is may_pass(told.value, "s3://data/X") is passes


def test_an_error_of_a_client_is_an_os_error() -> None:
    class ClientError(OSError):
        def __init__(self, status: int, reason: str) -> None:
            super().__init__(f"{status} {reason}")

    with pytest.raises(OSError, match=r"^pairs: s3://data/P .*503 busy$"), naming("pairs", "s3://data/P"):
        raise ClientError(503, "busy")
