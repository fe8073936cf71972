"""The benchmarks run; how fast things are is never asserted here."""

import json
import math
from pathlib import Path

import pytest

from tests.benchmarks.__main__ import BENCHMARKS, main
from tests.benchmarks.aug_pe import aug_pe

NAMES = [
    pytest.param(name, marks=() if name == "vote" else pytest.mark.runs) for name in BENCHMARKS
]


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_gives_finite_positive_ratios(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "aug_pe" and not aug_pe.is_peer_here():
        pytest.skip("private-evolution is missing (PRIVATE_EVOLUTION)")
    file = tmp_path / "bench.json"
    main(["--only", name, "--json", str(file), "--tiny"])
    result = json.loads(file.read_text())
    assert result["lines"]
    assert list(result["seconds"]) == [name]
    for entry in result["lines"]:
        assert entry["subject"] == name
        for number in ("ours_seconds", "peer_seconds", "ratio", "low", "high"):
            assert 0 < entry[number] < math.inf
        assert entry["case"] in capsys.readouterr().out + entry["case"]


def test_nothing_is_measured_without_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aug_pe, "is_peer_here", lambda: False)
    assert aug_pe.aug_pe(tiny=True) == []


def test_a_peer_that_cannot_be_imported_is_said_before_any_benchmark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(aug_pe.PEER, str(tmp_path))
    with pytest.raises(SystemExit, match="private-evolution cannot be imported"):
        main(["--only", "vote", "--only", "aug_pe"])
    assert capsys.readouterr().out == ""
