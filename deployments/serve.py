"""All flows on a laptop in one process: python -m deployments.serve, the same as `wasp serve`."""

from __future__ import annotations

import sys

from flows.cli import main

if __name__ == "__main__":
    sys.argv[1:] = ["serve", *sys.argv[1:]]
    main()
