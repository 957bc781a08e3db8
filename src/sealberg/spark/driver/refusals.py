"""What PyIceberg refuses of a statement, as an error of sealberg's."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table


@contextlib.contextmanager
def of(table: Table) -> Iterator[None]:
    """A `ValueError` of PyIceberg about what a statement asks for becomes a `ConfigError` that names the table."""
    try:
        yield
    except ValueError as error:
        if type(error) is not ValueError:  # one of sealberg's own
            raise
        raise ConfigError(f"{'.'.join(table.name())}: {error}") from error
