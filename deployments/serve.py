"""All flows on a laptop in one process: python -m deployments.serve, the same as `wasp serve`."""

from __future__ import annotations

import sys

from connectors.base import WaspError
from flows.serving import serve


def main() -> int:
    """Serve until interrupted; an error that a person can act on is one message and its exit code."""
    try:
        serve()
    except WaspError as error:
        print(f"wasp: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
