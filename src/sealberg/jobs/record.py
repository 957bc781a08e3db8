"""What the records of jobs have in common: who ran the job, and where."""

from __future__ import annotations

import getpass
import pwd
import socket
from contextlib import suppress


def this_user() -> str:
    """Who runs this process, and on which machine."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def is_self(name: str) -> bool:
    """Whether this is a name of the user who runs this process: the login, also with the host, or the full name."""
    login = getpass.getuser()
    names = {login, this_user(), f"{login}@{socket.getfqdn()}"}
    with suppress(KeyError):  # a login without an account, as in a container
        names.add(pwd.getpwnam(login).pw_gecos.partition(",")[0])
    return " ".join(name.split()).casefold() in {each.casefold() for each in names if each}
