"""The machine that a process runs on."""

import os


def machine_memory() -> int:
    """Return the bytes of the machine's whole memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
