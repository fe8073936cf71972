"""A private zone over a table in memory."""

from functools import partial
from pathlib import Path

import pandas as pd

from connectors.security.record_hashes import dataset_fingerprint, record_hash
from tasks.private.rows.rows import PrivateZone

SECRET = bytes(range(32))


def zone(frame: pd.DataFrame, folder: Path) -> PrivateZone:
    return PrivateZone(
        lambda _: frame, partial(record_hash, SECRET), partial(dataset_fingerprint, SECRET), folder
    )
