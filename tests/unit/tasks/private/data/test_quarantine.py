"""What leaves the private zone when something goes wrong in it: a code, on no path the words of a row."""

import pickle
import traceback
from pathlib import Path

import pytest
from tblib import pickling_support

from connectors.interfaces.errors import FinalError, PrivateInputError, WaspError
from tasks.private.data.quarantine import sealed, write_for_owner

ROW = "zqxplanted quokka 7731"


def embed(kind: str, folder: Path) -> None:
    with sealed(folder):
        try:
            raise ValueError(f"cannot encode {ROW!r}")
        except ValueError as error:
            if kind == "unknown":
                raise
            raise FinalError("the embedder failed") from (error if kind == "caused" else None)


def fail(kind: str, folder: Path) -> WaspError:
    with pytest.raises(WaspError) as caught:
        embed(kind, folder)
    return caught.value


@pytest.mark.parametrize("kind", ["unknown", "caused", "hidden"])
def test_an_error_travels_to_another_process_without_the_errors_before_it(kind: str, tmp_path: Path) -> None:
    error = fail(kind, tmp_path)
    assert isinstance(error, PrivateInputError if kind == "unknown" else FinalError)
    assert not isinstance(error, PrivateInputError) or ROW in error.details.read_text(), "for the owner alone"
    pickling_support.install()  # what Dask does: causes and contexts are pickled as well
    sent = pickle.dumps(error)
    assert ROW.encode() not in sent
    assert str(pickle.loads(sent)) == str(error)
    assert ROW not in "".join(traceback.format_exception(error, chain=True))


def test_what_is_written_for_the_owner_is_readable_for_the_owner_only(tmp_path: Path) -> None:
    write_for_owner(tmp_path / "zone" / "problems.json", "a private passage")
    assert (tmp_path / "zone").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "zone" / "problems.json").stat().st_mode & 0o777 == 0o600
