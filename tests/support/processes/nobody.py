"""A process without the privileges of root, under which most containers run the tests."""

import ctypes
import os
from collections.abc import Callable

_VERSION_3 = 0x20080522
"""Version of the kernel's structure of capabilities: two sets of 32 bits each (linux/capability.h)."""


def as_nobody(compute: Callable[[], list[str]]) -> list[str]:
    """Compute in a process that may not read everything, as root may; an error there is the last line.

    The process keeps its user, so that it reads the project in a folder that only root may enter.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _drop_capabilities()
            lines = compute()
        except BaseException as error:
            lines = [repr(error)]
        os.write(writer, "\n".join(lines).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text.splitlines()


def _drop_capabilities() -> None:
    """Drop every privilege of this process, for good."""
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "capset")
