"""State folders of earlier versions: their runs are resumed, repeated, shown and exported, and charged once."""

from pathlib import Path

import pytest

from tests.support.processes.command import wasp_in
from tests.support.stored_states import VERSIONS, runs_of, unpack, votes_of_today
