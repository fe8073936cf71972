"""Tests of the pipeline."""

import os

# Before numpy is imported: its sums depend, by rounding, on the number of threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")
