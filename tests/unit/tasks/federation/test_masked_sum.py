"""The coordinator's side of a masked sum: what it refuses by name, and an independent protocol beside it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from contextlib import ExitStack
from subprocess import PIPE
from typing import Any

import numpy as np
import pytest

from connectors.interfaces.errors import PartyError
from tasks.federation.masked_sum import centred, unmasked
from tests.support.data.masked_rounds import Federation, ints

FEW = Federation(3)


def sent() -> tuple[Any, dict[str, Any]]:
    round = FEW.round(4)
    return round, FEW.uploads(round, {party: ints([1, 2, 3, -4]) for party in FEW.secret})


def test_residues_become_the_nearest_integers():
    edges = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], dtype=np.uint32)
    assert centred(edges).tolist() == [0, 1, 2**31 - 1, -(2**31), -1]


def test_an_upload_that_is_missing_or_of_a_stranger_is_named():
    round, uploads = sent()
    with pytest.raises(PartyError, match="'party-02' sent no values"):
        unmasked(round, {party: one for party, one in uploads.items() if party != "party-02"})
    with pytest.raises(PartyError, match="'stranger' sent values for a round that it does not take part in"):
        unmasked(round, {**uploads, "stranger": uploads["party-01"]})
    assert unmasked(round, uploads).tolist() == [3, 6, 9, -12]


WRONG = {
    "too short": np.zeros(3, dtype=np.uint32),
    "too long": np.zeros(5, dtype=np.uint32),
    "two columns": np.zeros((4, 1), dtype=np.uint32),
    "64 bits": np.zeros(4, dtype=np.int64),
    "not a number": np.full(4, np.nan),
    "a list": [0, 0, 0, 0],
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_upload_of_another_length_or_type_is_named(wrong: str):
    round, uploads = sent()
    with pytest.raises(PartyError, match="'party-03' did not send 4 integers of 32 bits"):
        unmasked(round, {**uploads, "party-03": WRONG[wrong]})


def test_an_independent_protocol_finds_the_same_sum():
    rows = np.random.default_rng(3).integers(-(2**20), 2**20, (3, 40))
    round = FEW.round(40)
    total = unmasked(round, FEW.uploads(round, dict(zip(FEW.secret, rows, strict=True))))
    places = [part for port in free_ports(3) for part in ("-P", f"127.0.0.1:{port}")]
    command = [sys.executable, "-m", "tests.support.processes.secure_sum", "--no-log", *places, "-I"]
    parties = [subprocess.Popen([*command, str(one)], stdin=PIPE, stdout=PIPE, text=True) for one in range(3)]
    for party, row in zip(parties, rows, strict=True):
        party.stdin.write(json.dumps(row.tolist()))
        party.stdin.close()
    found = [json.loads(party.stdout.read()) for party in parties]
    assert [party.wait(60) for party in parties] == [0, 0, 0]
    assert found == [total.tolist()] * 3


def free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [one.getsockname()[1] for one in taken]
