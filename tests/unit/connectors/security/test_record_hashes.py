"""Keyed hashes recognise content and say nothing without the key."""

import hashlib
import stat
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connectors.interfaces.errors import LedgerError
from connectors.security.record_hashes import (
    dataset_fingerprint,
    key_name,
    open_secret,
    record_hash,
)
from tests.support.paths import ROOT

KEY, OTHER = b"k" * 32, b"o" * 32
records = st.lists(st.text(min_size=1, max_size=5), max_size=8)


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    secret = open_secret(tmp_path / "home")
    path = tmp_path / "home" / "private" / "ledger.key"
    assert len(secret) == 32
    assert open_secret(tmp_path / "home") == secret == path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0
    assert [each.name for each in path.parent.iterdir()] == ["ledger.key"]
    assert open_secret(tmp_path / "other") != secret


def test_processes_that_start_together_get_the_same_key(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from connectors.security.record_hashes import open_secret as o; sys.stdin.readline(); "
        "print(o(pathlib.Path(sys.argv[1])).hex())"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], **pipes) for _ in range(4)
    ]
    keys = {child.communicate("go\n", timeout=60)[0].strip() for child in children}
    assert keys == {open_secret(tmp_path).hex()}
    assert len(list((tmp_path / "private").iterdir())) == 1


def test_a_damaged_or_open_key_is_refused(tmp_path: Path) -> None:
    open_secret(tmp_path)
    path = tmp_path / "private" / "ledger.key"
    path.chmod(0o644)
    with pytest.raises(LedgerError, match="chmod 600"):
        open_secret(tmp_path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(LedgerError, match="5 bytes instead of 32"):
        open_secret(tmp_path)


def test_a_key_that_cannot_be_made_is_an_error_that_names_its_place(tmp_path: Path) -> None:
    (tmp_path / "private").touch()
    with pytest.raises(LedgerError, match=r"ledger\.key cannot be opened"):
        open_secret(tmp_path)


def test_a_copy_through_another_editor_is_the_same_record() -> None:
    composed, decomposed = "caf\u00e9 au lait", "cafe\u0301  au\n lait "
    assert record_hash(KEY, "drink", composed) == record_hash(KEY, " drink", decomposed)


def test_every_field_and_its_place_counts() -> None:
    variants = [
        ("a", "b c", None),
        ("a b", "c", None),
        ("b c", "a", None),
        ("a", "b c", ""),
        ("a", "b c", "p"),
    ]
    hashes = [record_hash(KEY, label, text, person) for label, text, person in variants]
    assert (
        len({*hashes, record_hash(KEY, "a", "B c"), record_hash(OTHER, "a", "b c")})
        == len(variants) + 2
    )


@given(records, records, st.randoms())
@example(["a"], ["a", "a"], Random(0))
def test_a_fingerprint_distinguishes_multisets_and_no_orders(
    first: list[str], other: list[str], random: Random
) -> None:
    hashes = [[record_hash(KEY, "label", text) for text in texts] for texts in (first, other)]
    shuffled = random.sample(hashes[0], len(first))
    assert dataset_fingerprint(KEY, iter(shuffled)) == dataset_fingerprint(KEY, hashes[0])
    same = dataset_fingerprint(KEY, hashes[0]) == dataset_fingerprint(KEY, hashes[1])
    assert same == (sorted(hashes[0]) == sorted(hashes[1]))


def test_a_hash_cannot_be_confirmed_without_the_key() -> None:
    guessed = hashlib.sha256(b"label text").hexdigest()
    assert record_hash(KEY, "label", "text") not in {
        guessed,
        record_hash(bytes(32), "label", "text"),
    }
    assert dataset_fingerprint(KEY, ["a"]) != dataset_fingerprint(OTHER, ["a"])


def test_a_text_with_a_broken_character_has_a_hash_like_any_other() -> None:
    assert len(record_hash(KEY, "label", "broken \ud800")) == 64


def test_a_key_is_recognised_by_a_name_that_is_not_part_of_it():
    first, other = bytes(32), bytes([1] * 32)
    assert key_name(first) != key_name(other)
    assert len(key_name(first)) == 16
    assert key_name(other) not in other.hex()
