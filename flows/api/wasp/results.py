"""Runs and comparisons: start them, and read their tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from connectors.interfaces.json_values import Json
from flows.cli import start, stored_runs
from flows.runtime.state_folder import state_folder
from flows.runtime.stores import open_artifacts

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Changes = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Result:
    """A finished run.

    Attributes:
        run_id: its id, for `wasp show`, `wasp resume` and `wasp export`.
        summary: the object of `wasp run --json`: accuracy, epsilon_spent, iterations and more.
    """

    run_id: str
    summary: Json

    @property
    def table(self) -> pa.Table:
        """The synthetic texts: sample_id, text, label, attribute, plm (the model), iteration.

        With soft labels also label_soft, the probability of each class.
        """
        return pq.read_table(self._file("synthetic.parquet"))

    @property
    def texts(self) -> pd.DataFrame:
        """The synthetic texts as pandas."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

    @property
    def report(self) -> Path:
        """The HTML report."""
        return Path(self.summary["report"])

    def predict(self, texts: Sequence[str]) -> pd.DataFrame:
        """Return the label of each text by the run's classifier, and the probability of each class."""
        import pandas as pd

        guessed = stored_runs.predict(self.run_id, list(texts))
        return pd.DataFrame({"label": guessed["labels"]}).join(
            pd.DataFrame(guessed["probabilities"])
        )

    def _repr_html_(self) -> str:
        """Return the report in a frame, which a notebook shows in place of the object."""
        # Sandboxed: the page contains generated texts, and must not reach the notebook.
        page = escape(self.report.read_text(encoding="utf-8"))
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{page}" width="100%" height="640"></iframe>'
        )

    def export(self, folder: str | Path, license: str = "other") -> list[str]:
        """Write the signed bundle, if the release gate passes; return its files. Raises WaspError if it does not."""
        return list(stored_runs.export(self.run_id, Path(folder), license)["files"])

    def _file(self, name: str) -> Path:
        return open_artifacts(state_folder()).fetch(f"runs/{self.run_id}/{name}")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A finished comparison; `summary` is the object of `wasp compare --json`."""

    summary: Json

    @property
    def cells(self) -> pd.DataFrame:
        """One row per run: method, setting, seed, metrics, epsilon, and `not_private`."""
        import pandas as pd

        return pd.json_normalize(self.summary["cells"])


def run(name: str, changes: Changes | None = None, config: str | Path | None = None) -> Result:
    """Run a method; finished steps of the same run are reused, and nothing is paid twice.

    Args:
        name: a configuration by name (`demo`, `triage`); with `config`, a flow.
        changes: values to change, such as {"privacy.epsilon": 2}.
        config: configuration file.

    Raises:
        WaspError: a wrong configuration, a refusal by the budget, or a failed step.
    """
    summary = dict(start.run(name, _path(config), _options(changes)))
    return Result(summary["run_id"], summary)


def plan(name: str, changes: Changes | None = None, config: str | Path | None = None) -> Json:
    """Return what a run would spend, and its `problems`; spend nothing. Arguments as in `run`."""
    return dict(start.plan(name, _path(config), _options(changes)))


def compare(config: str | Path, changes: Changes | None = None) -> Comparison:
    """Run a comparison; finished cells are reused."""
    return Comparison(dict(start.compare(config=Path(config), set_=_options(changes))))


def runs() -> pd.DataFrame:
    """Return the runs of the state folder, newest first: run_id, flow, state, dataset, epsilon, accuracy.

    `started` is a time with zone; it is missing for a run whose files are damaged.
    """
    import pandas as pd

    frame = pd.DataFrame(stored_runs.runs()["runs"])
    # Without runs the frame has no columns.
    if frame.empty:
        return frame
    return frame.assign(started=pd.to_datetime(frame["started"], utc=True))


def _path(config: str | Path | None) -> Path | None:
    if config is None:
        return None
    return Path(config)


def _options(changes: Changes | None) -> list[str]:
    # JSON values are valid YAML, which the options of the command are.
    return [f"{name}={json.dumps(value)}" for name, value in (changes or {}).items()]
