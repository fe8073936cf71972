"""Log files of the services, and the process that limits their size.

`python -m deployments.stack.logs FOLDER` runs as a service of its own. Services append to their file, so a file can be
copied and emptied while they write; the lines of that moment may be lost.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

LARGEST_LOG = 10_000_000
OLD_LOGS = 3
EVERY_SECONDS = 60.0


def log_path(folder: Path, name: str) -> Path:
    """Return the log file of a service."""
    (folder / "logs").mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / "logs" / f"{name}.log"


def log_tail(folder: Path, name: str, lines: int = 12) -> str:
    """Return the end of a service's log."""
    text = log_path(folder, name).read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[-lines:])


def rotate(folder: Path, largest: int = LARGEST_LOG) -> None:
    """Copy each log above `largest` bytes to NAME.log.1, older copies to .2 and .3, and empty it."""
    for log in (folder / "logs").glob("*.log"):
        if log.stat().st_size < largest:
            continue
        for number in range(OLD_LOGS, 1, -1):
            newer = log.with_suffix(f".log.{number - 1}")
            if newer.exists():
                newer.replace(log.with_suffix(f".log.{number}"))
        shutil.copyfile(log, log.with_suffix(".log.1"))
        with log.open("r+b") as file:
            file.truncate(0)


def main(folder: Path) -> None:
    """Rotate the logs of a stack for as long as it runs."""
    while True:
        rotate(folder)
        time.sleep(EVERY_SECONDS)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
