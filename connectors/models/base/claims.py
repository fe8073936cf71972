"""Claims: which caller on this machine requests a prompt.

Two callers that need the same completion must not both pay for it. Each claims prompts in the store shortly before it
requests them; the other one waits and reads. A claim ends with its completion, with its caller, with its caller's
process, or when it is no longer renewed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from connectors.interfaces.errors import WaspError
from connectors.models.base.processes import process_name

if TYPE_CHECKING:
    from connectors.models.base.completion_store import CompletionStore

Claim = Callable[[Sequence[str]], Sequence[str]]
"""Returns the prompt keys that may be requested here; others have a completion, or are requested elsewhere."""

LEASE_SECONDS = 12.0
"""Time after which a claim that is not renewed ends."""

RENEW_SECONDS = 2.0  # a sixth of the lease: a busy machine can delay some renewals


@contextmanager
def leased(store: CompletionStore, identity: str) -> Iterator[Claim]:
    """Yield a function that claims prompts; a thread renews the claims until the block ends."""
    owner = f"{process_name()}.{uuid4().hex[:16]}"
    ended = threading.Event()
    errors = list[WaspError]()

    def renew() -> None:
        while not ended.wait(RENEW_SECONDS):
            try:
                store.renew_claims(identity, owner, LEASE_SECONDS)
            except WaspError as error:
                errors.append(error)
                return

    thread = threading.Thread(target=renew, name="wasp-claims", daemon=True)

    def claim(keys: Sequence[str]) -> Sequence[str]:
        # The thread cannot raise into its caller. Without renewals, others may request the same prompts.
        if errors:
            raise errors[0]
        claimed = store.claim(identity, keys, owner, LEASE_SECONDS)
        if (
            claimed and thread.ident is None
        ):  # most calls find all completions stored and need no thread
            thread.start()
        return claimed

    try:
        yield claim
    finally:
        if thread.ident is not None:
            ended.set()
            thread.join()
            store.release_claims(identity, owner)
