"""Command line of the stack: python -m deployments.stack up | down | status."""

from __future__ import annotations

import argparse
import sys

from connectors.interfaces.errors import WaspError
from deployments.stack import control


def main(arguments: list[str] | None = None) -> int:
    """Run a command; print a WaspError as one message and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m deployments.stack", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "status"))
    command = parser.parse_args(arguments).command
    try:
        for line in {"up": control.up, "down": control.down, "status": control.status}[command]():
            print(line, flush=True)
    except WaspError as error:
        print(f"wasp stack: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
