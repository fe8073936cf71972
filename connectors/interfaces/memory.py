"""Memory that a step freed goes back to the system, so that a long run needs what its largest step needs.

Two allocators retain it by default. Of the heaps of glibc only the ends go back, and one block in use retains what is
before it. The default pool of pyarrow also retains what tables leave behind.
"""

import ctypes
import os
from collections.abc import MutableMapping

ARROW_POOL = "ARROW_DEFAULT_MEMORY_POOL"
"""Variable that chooses pyarrow's pool; read when pyarrow is first used."""


def settle_memory(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let pyarrow use the pool of the system, unless the user chose one; call it before pyarrow is imported."""
    environment.setdefault(ARROW_POOL, "system")


def return_memory() -> None:
    """Return all free pages of this process's heaps to the system; takes a millisecond, with large heaps some.

    Sizes from which blocks have mappings of their own would do the same (M_MMAP_THRESHOLD), but a language model's
    activations would get new pages in every step.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):  # other C libraries than glibc
        return
    trim(0)
