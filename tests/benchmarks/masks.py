"""One party's part of a masked sum, keys and masks, against the random streams that no mask can do without."""

from typing import Any

import numpy as np

from tasks.federation.masked_round import check_announcements
from tasks.federation.masked_sum import unmasked
from tasks.private.federation.masking import RoundKey, masked
from tests.benchmarks.race import Line, compare, seconds
from tests.support.data.masked_rounds import Federation


def masks(tiny: bool) -> list[Line]:
    """Both histograms of 12,000 texts, for 10, 50 and 150 parties; the note says what the coordinator needs."""
    rounds = 1 if tiny else 5
    return [one for number in ((2,) if tiny else (10, 50, 150)) for one in _of(number, 20 if tiny else 24_000, rounds)]


def _of(number: int, length: int, rounds: int) -> list[Line]:
    federation = Federation(number)
    round = federation.round(length)
    announced = [key.announcement for key in federation.keys(round).values()]
    values = np.zeros(length, dtype=np.int64)
    name, *_ = federation.secret

    def ours() -> Any:
        key = RoundKey.generate(name, round, federation.secret[name])
        every = [key.announcement, *announced[1:]]
        return masked(values, key, check_announcements(round, every, federation.registry), every)

    uploads = dict.fromkeys(round.parties, ours())
    summed = min(seconds(lambda: unmasked(round, uploads)) for _ in range(rounds))
    note = f"{4 * length:,} bytes up; the coordinator sums in {1000 * summed:.1f} ms"
    peers = {"AES-CTR alone": lambda: streams(number - 1, length)}
    return compare("masks", f"{number} parties, {length} counts", ours, peers, rounds, dict.fromkeys(peers, note))


def streams(number: int, length: int) -> None:
    """Make so many streams of 32-bit numbers, under a key each."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES256
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    for one in range(number):
        Cipher(AES256(one.to_bytes(32, "big")), CTR(bytes(16))).encryptor().update(bytes(4 * length))
