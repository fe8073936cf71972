"""A realistic made-up report."""

import math

import numpy as np

from connectors.interfaces.ledger import Charge
from connectors.interfaces.models import Usage
from tasks.evaluation.map_points import MapPoints
from tasks.metrics.iteration_record import IterationRecord
from tasks.private.release import Released
from tasks.reporting.run_record import Outgoing, RunRecord, Scores

PLMS = ("ngram-wide", "ngram-narrow", "gpt-4o", "claude")
CLASSES = ("card lost", "loan", "fees", "transfer")
VOTES = Released(
    "votes",
    "votes",
    "",
    "the noisy votes: selected examples, weights, prompts, synthetic texts, student",
)


def one_iteration(number, **changes):
    weights = np.exp(np.array([0.1, 0.45, 0.9, -0.3]) * number / 2)
    spent = 4.0 * math.sqrt(min(number + 1, 4) / 4)
    values = {
        "iteration": number,
        "new": {plm: 300 + 70 * (k - 1) * number for k, plm in enumerate(PLMS)},
        "total": 1200 * (number + 1),
        "fid": 0.62 - 0.09 * number + 0.01 * number**2,
        "fid_equal": 0.62 - 0.05 * number + 0.01 * number**2,
        "mmd": 28.5 - 3.5 * number,
        "fid_reference": "test",
        "probe_accuracy": 0.52 + 0.06 * number - 0.006 * number**2,
        "shortfall": {plm: 3 * k for k, plm in enumerate(PLMS)},
        "failures": {
            "gpt-4o": {"refused": 2 + number, "duplicate": 9},
            "ngram-wide": {"duplicate": 31},
        },
        "down": {},
        "usage": {plm: Usage(40, 9000, 5200, 0.031 * k) for k, plm in enumerate(PLMS)},
        "weights": {plm: float(w) for plm, w in zip(PLMS, weights / weights.sum(), strict=True)},
        "epsilon": spent,
        "releases": min(number + 1, 4),
    }
    return IterationRecord(**(values | changes))


def made_up_report(**changes):
    charge = Charge(
        "discrete gaussian",
        {"kind": "gaussian", "noise_multiplier": 2.1623},
        1.632981,
        "one row votes for 8 near and 8 far texts: sqrt(8/3 (1 - 4^-8))",
        3.531,
        "row",
        "add_remove",
    )
    counts = (
        np.full((4, 4), 2)
        + np.diag([41, 36, 30, 44])
        + np.array([[0, 0, 9, 0], [0] * 4, [7, 0, 0, 4], [0] * 4])
    )
    rng = np.random.default_rng(1)
    around = rng.normal(size=(4, 2)) * 3
    synthetic = np.concatenate([centre + rng.normal(size=(120, 2)) * 0.9 for centre in around])
    test = np.concatenate([centre + rng.normal(size=(45, 2)) * 0.7 + 0.3 for centre in around])
    score = {"precision": 0.78, "recall": 0.74, "f1": 0.76, "rows": 52.0}
    values = {
        "run_id": "wasp-20260412-101502-7f3a",
        "flow": "wasp",
        "task": "banking10",
        "state": "COMPLETED",
        "seconds": 412.7,
        "epsilon": 4.0,
        "epsilon_exact": 3.9999,
        "delta": 1e-5,
        "sigma": 3.531,
        "sensitivity": 1.632981,
        "calibration": "tight",
        "protects": "row",
        "adjacency": "add_remove",
        "released": (VOTES,),
        "epsilon_spent": 3.9999,
        "releases": 4,
        "n_synthetic": 6000,
        "charges": (charge,) * 4,
        "iterations": tuple(one_iteration(number) for number in range(5)),
        "scores": Scores(
            0.726, 0.713, CLASSES, dict.fromkeys(CLASSES, score), tuple(map(tuple, counts.tolist()))
        ),
        "map": MapPoints(
            synthetic=tuple(map(tuple, synthetic.tolist())),
            test=tuple(map(tuple, test.tolist())),
            labels=tuple(np.repeat(CLASSES, 120).tolist()),
            texts=tuple(f"text {number} <b>" for number in range(480)),
            test_labels=tuple(np.repeat(CLASSES, 45).tolist()),
        ),
        "places": {
            "synthetic texts": "runs/wasp-20260412-101502-7f3a/synthetic.parquet",
            "student": "runs/wasp-20260412-101502-7f3a/student",
            "MLflow": "http://127.0.0.1:5000/#/experiments/1/runs/3f",
        },
        "next": (
            (
                "wasp export wasp-20260412-101502-7f3a DIR",
                "Take what may be shared out of the state folder",
            ),
            ("wasp budget show banking10", "See what is left of the dataset's budget"),
        ),
        "versions": {"wasp-synth": "0.1.0", "opendp": "0.16.0"},
    }
    values["outgoing"] = (
        Outgoing(
            "gpt-4o",
            "openai",
            ("api.vendor.example",),
            40,
            Usage(40, 9000, 5200, 0.1),
            "Write one item & more",
        ),
        Outgoing("ngram-wide", "ngram", (), 40, Usage(40, 9000, 5200), ""),
    )
    return RunRecord(**(values | changes))
