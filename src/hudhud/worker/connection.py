"""How a worker opens the few connections of its own: settled here so that none can hang.

Each is autocommit and uses no session state and no named prepared statement, so it works behind a
pooler in transaction mode; only the waker's must reach the server directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

if TYPE_CHECKING:
    from psycopg.rows import TupleRow

# A peer that is gone without a word is noticed within about 15 seconds, not after two hours.
_PARAMETERS: Final[dict[str, str | int]] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
}


def connect(url: str, name: str) -> psycopg.Connection[TupleRow]:
    """Open a blocking connection for a thread of its own.

    Args:
        url: Address of the database; what it sets itself (a `connect_timeout`) wins.
        name: What it is for, shown in `pg_stat_activity` as `hudhud <name>`.

    Raises:
        psycopg.OperationalError: The server cannot be reached or refuses.
    """
    return psycopg.connect(conninfo(url, name), autocommit=True, prepare_threshold=None)


async def aconnect(url: str, name: str) -> psycopg.AsyncConnection[TupleRow]:
    """Open a connection for the event loop; otherwise as `connect`."""
    return await psycopg.AsyncConnection.connect(
        conninfo(url, name), autocommit=True, prepare_threshold=None
    )


def conninfo(url: str, name: str) -> str:
    """Return the address with what every connection of a worker has; see `connect`."""
    own = conninfo_to_dict("", **_PARAMETERS, application_name=f"hudhud {name}")
    return make_conninfo("", **{**own, **conninfo_to_dict(url)})
