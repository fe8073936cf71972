"""Folders of the repository that tests read and write."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("WASP_DATA") or ROOT.parent / "shared" / "data")
"""Real data sets; tests marked `real_data` are skipped without them."""
DESK = ROOT / "connectors" / "data" / "support_desk"
"""Invented rows that ship: private.parquet and test.parquet."""
GOLDEN = ROOT / "tests" / "golden"
OUTPUT = Path(os.environ.get("WASP_TEST_OUTPUT") or ROOT / "tests" / "output")
"""Screenshots that tests write for people to look at."""
