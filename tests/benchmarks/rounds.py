"""Rounds of a federation without Prefect: L parties as threads, with folders, books, keys and masks of their own."""

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from connectors.interfaces.artifacts import StepKey
from tasks.core.refs import Written
from tasks.federation.masked_round import Round, check_announcements
from tasks.federation.masked_sum import unmasked
from tasks.federation.traffic import totals
from tasks.private.federation.masking import RoundKey, masked
from tasks.steps.generate import ROW_TYPES
from tests.benchmarks.race import Line, line
from tests.support.runs.federation import LABELS, Federated, open_federated, write_rows

ROWS_EACH = 8
ITERATIONS = 2
FLOOR = "masks and sum alone"


@dataclass
class Many(Federated):
    """A federation with `each` texts an iteration."""

    each: int = 400

    def texts(self, iteration: int = 0) -> Written:
        """Write the texts of an iteration, as models would."""
        tools, ids = self.run.tools, [self.each * iteration + number for number in range(self.each)]
        texts = [made_up(number) for number in ids]
        fixed: dict[str, Any] = {"attribute": "", "plm": "clerk", "iteration": iteration, "prompt_key": ""}
        fixed |= {"finish_reason": "stop", "tokens_in": 0, "tokens_out": 0}
        labels = [LABELS[number % len(LABELS)] for number in ids]
        table = pd.DataFrame({"sample_id": ids, "text": texts, "label": labels}).assign(**fixed)[list(ROW_TYPES)]
        key = StepKey("texts", 1, {"iteration": iteration}, {})
        path = f"runs/{tools.run_id}/iteration={iteration}/plm=clerk/samples.parquet"
        samples = tools.artifacts.write_table(path, table, key)
        place = f"embeddings/{samples.sha256[:32]}.parquet"
        return Written(
            "clerk", iteration, samples, tools.artifacts.write_matrix(place, tools.embedder.embed(texts), key)
        )


def rounds(tiny: bool) -> list[Line]:
    """Two votes of WASP, near and far, of parties with 8 rows each, the same texts for every L; seconds of a core."""
    lines = []
    for number, each in ((3, 12),) if tiny else ((10, 400), (50, 400), (150, 400)):
        with tempfile.TemporaryDirectory() as name:
            rows = write_rows(Path(name) / "rows.parquet", ROWS_EACH * number)
            opened = open_federated(Path(name) / "federation", number, rows=rows)
            found = Many(opened.folder, opened.run, opened.parties, opened.changes, each)
            for iteration in range(ITERATIONS):
                started, used = time.perf_counter(), time.process_time()
                votes, info, _ = found.vote(iteration=iteration, minutes=10)
                took, used = time.perf_counter() - started, time.process_time() - used
                facts = {"parties": len(info["parties"]), **per_party(info["bytes"], number), "seconds": took}
                note = f"{words(facts)}; {took:.1f} s by the clock"
                case = f"L={number} t={iteration}, {2 * len(votes.ids)} sums"
                floor = [arithmetic(number, 2 * len(votes.ids)) for _ in range(3)]
                lines.append(replace(line("rounds", case, FLOOR, [used] * 3, floor, note), facts=facts))
    return lines


def per_party(traffic: dict[str, Any], number: int) -> dict[str, int]:
    """Return the bytes of one party by way."""
    return {way: size // number for way, size in totals(traffic).items()}


def words(facts: dict[str, Any]) -> str:
    """Say what travelled."""
    return ", ".join(f"{facts[way]:,} {way}" for way in ("down", "between", "up")) + " bytes a party"


def made_up(number: int) -> str:
    """Return a text that no other number has."""
    subjects = ("router", "invoice", "parcel", "light", "cable", "refund", "signal", "reset", "email", "screen", "bill")
    return " ".join(np.random.default_rng(number).choice(subjects, 9)) + f" {number}"


def arithmetic(number: int, length: int) -> float:
    """Return the seconds of a core of every party's masks, one after the other, and of the sum."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    names = tuple(f"party-{one:03}" for one in range(number))
    long_term = {name: Ed25519PrivateKey.generate() for name in names}
    shown = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    registry = {name: key.public_key().public_bytes(*shown) for name, key in long_term.items()}
    round_ = Round("floor", 0, 0, names, length, "0" * 64)
    keys = [RoundKey.generate(name, round_, long_term[name].private_bytes_raw()) for name in names]
    announced = [key.announcement for key in keys]
    transcript = check_announcements(round_, announced, registry)
    values = np.arange(length, dtype=np.int64)

    started = time.process_time()
    sent = {key.party: masked(values, key, transcript, announced) for key in keys}
    total = unmasked(round_, sent)
    took = time.process_time() - started
    if not np.array_equal(total, values * number):
        raise AssertionError("masks did not cancel")
    return took
