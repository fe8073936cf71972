"""Candidates arrive as they were sent, or not at all."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from connectors.interfaces.errors import ArtifactError, InputError
from tasks.federation.wire import FORMS, Form, packed, seen, unpacked
from tasks.private.voting.ballot import Candidates


def standing(vectors: Any, labels: Any = None) -> Candidates:
    rows = len(vectors)
    labels = [f"class {row % 3}" for row in range(rows)] if labels is None else labels
    return Candidates(np.arange(rows) * 7 + 3, np.array(labels, dtype=object), vectors)


def unit(rows: int, dimension: int) -> Any:
    vectors = np.random.default_rng(1).normal(size=(rows, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("form", FORMS)
def test_ids_and_classes_arrive_exactly_and_vectors_within_the_form(form: Form):
    sent = standing(unit(50, 24))
    got = unpacked(packed(sent, form))
    assert got.ids.tolist() == sent.ids.tolist()
    assert got.labels.tolist() == sent.labels.tolist()
    assert got.vectors.tobytes() == seen(sent.vectors, form).tobytes()
    largest = np.abs(sent.vectors).max(axis=1, keepdims=True)
    allowed = {"float32": 0, "float16": np.abs(sent.vectors) / 2**11, "int8": largest / 127 * 0.5001}[form]
    assert (np.abs(got.vectors - sent.vectors) <= allowed).all()


def test_a_message_has_few_bytes():
    lengths = [len(packed(standing(unit(200, 384)), form)) for form in FORMS]
    heads = 200 * (4 + 2) + 100
    assert [abs(length - 200 * 384 * width) < heads + 200 * 4 for length, width in zip(lengths, (4, 2, 1), strict=True)]
    assert lengths[2] < 0.27 * lengths[0]


@settings(max_examples=40, deadline=None)
@given(
    arrays.arrays(np.float32, st.tuples(st.integers(0, 6), st.integers(0, 5)), elements=st.floats(-1e4, 1e4, width=32))
)
def test_any_vectors_arrive_and_what_arrived_arrives_again_unchanged(vectors: Any):
    for form in FORMS:
        once = seen(vectors, form)
        assert once.dtype == np.float32
        assert once.shape == vectors.shape
        assert np.isfinite(once).all()
        assert unpacked(packed(standing(vectors), form)).vectors.tobytes() == once.tobytes()
        if form != "int8":
            assert seen(once, form).tobytes() == once.tobytes()


@pytest.mark.parametrize(
    ("form", "known"),
    [
        ("float32", "830c28c29fbd7f6a"),
        ("float16", "e5b52c4921762c10"),
        ("int8", "f5a5e92d22059df2"),
    ],
)
def test_equal_candidates_are_equal_bytes_on_every_machine(form: Form, known: str):
    vectors = (np.arange(60, dtype=np.float32).reshape(6, 10) - 29.5) / 64
    message = packed(standing(vectors, ["b", "a", "ü", "a", "b", "a"]), form)
    assert hashlib.sha256(message).hexdigest()[:16] == known


@pytest.mark.parametrize("form", FORMS)
def test_no_damage_goes_unseen(form: Form):
    message = packed(standing(unit(3, 4)), form)
    for place in range(len(message)):
        spoiled = bytearray(message)
        spoiled[place] ^= 1
        with pytest.raises(ArtifactError, match="damaged"):
            unpacked(bytes(spoiled))
    for wrong in (b"", message[:-1], message[1:], message + b"\x00", message[:20]):
        with pytest.raises(ArtifactError, match="damaged"):
            unpacked(wrong)


@pytest.mark.parametrize("place", [0, 8, 9])
def test_a_message_of_another_version_is_refused(place: int):
    body = bytearray(packed(standing(unit(3, 4)), "int8")[:-32])
    body[place] = 77
    with pytest.raises(ArtifactError, match="version 1"):
        unpacked(bytes(body) + hashlib.sha256(body).digest())


def test_what_cannot_be_sent_is_refused():
    with pytest.raises(InputError, match="int4"):
        packed(standing(unit(2, 2)), "int4")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="too large for float16"):
        packed(standing(np.full((1, 2), 7e4, dtype=np.float32)), "float16")
    far = Candidates(np.array([2**32]), np.array(["a"], dtype=object), unit(1, 2))
    with pytest.raises(InputError, match="does not fit 32 bits"):
        packed(far, "int8")


def test_rows_of_zeros_stay_zeros():
    assert not seen(np.zeros((2, 3), dtype=np.float32), "int8").any()
