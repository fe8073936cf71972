"""Runs and comparisons: start them, and read their tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, overload

import pyarrow.parquet as pq

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from flows.cli import start, stored_runs
from flows.runtime.state_folder import state_folder
from flows.runtime.stores import open_artifacts

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from tasks.reporting.run_plan import CheckedPlan
    from tasks.reporting.run_summary import RunSummary

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
    def details(self) -> RunSummary:
        """The summary with typed attributes, for editors and type checkers: `details.epsilon_spent`."""
        from tasks.reporting.run_summary import RunSummary

        return RunSummary.from_json(self.summary)

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
        return _in_frame(self.report)

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

    @property
    def report(self) -> Path:
        """The page with the tables and figures."""
        return Path(self.summary["table"])

    def _repr_html_(self) -> str:
        """Return the page in a frame, which a notebook shows in place of the object."""
        return _in_frame(self.report)


@dataclass(frozen=True, slots=True)
class Preview:
    """Texts of each language model and class, written without private records.

    Attributes:
        texts: one row per text: plm (the model), label, text, reason (why it is left out; None if it is not), remarks.
        findings: what the reader should check, such as limits that left texts out.
        dollars: cost of the texts.
    """

    texts: pd.DataFrame
    findings: tuple[str, ...]
    dollars: float


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


def plan(
    name: str, changes: Changes | None = None, config: str | Path | None = None
) -> CheckedPlan:
    """Return what a run would spend, and its `problems`; spend nothing. Arguments as in `run`."""
    return cast("CheckedPlan", dict(start.plan(name, _path(config), _options(changes))))


def preview(
    name: str,
    changes: Changes | None = None,
    config: str | Path | None = None,
    rows: int = 5,
) -> Preview:
    """Let each language model write `rows` texts per class; use no private record. Other arguments as in `run`."""
    import pandas as pd

    from tasks.reporting.terminal import unusable_texts

    value = start.preview(name, _path(config), _options(changes), rows)
    findings = [*value["findings"], *value["limits"], unusable_texts(value)]
    return Preview(
        pd.DataFrame(value["rows"]),
        tuple(finding for finding in findings if finding),
        value["dollars"],
    )


def advise(  # noqa: PLR0913 - the options of `wasp advise`
    name: str | None = None,
    changes: Changes | None = None,
    config: str | Path | None = None,
    *,
    rows: int | None = None,
    classes: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
) -> Json:
    """Estimate what private records would add; read none, spend nothing.

    Args:
        name: a configuration, which states all numbers below; or None with `rows`, `classes` and `epsilon`.
        changes: as in `run`.
        config: as in `run`.
        rows: rounded number of private records.
        classes: number of classes.
        epsilon: epsilon of one release.
        delta: delta of the release; 0.00001 if None.

    Returns:
        `opens`: False for the advice to keep the budget. `gains`: expected points of accuracy over texts alone and
        over the best floor, at `index`. `needed_epsilon`: the epsilon that would help, if this one does not.
    """
    return dict(
        start.advise(
            name, _path(config), _options(changes), rows, classes, epsilon, delta, range_=False
        )
    )


def resume(run_id: str, respend: bool = False) -> Result:
    """Resume a run after a crash or a failed step; nothing is paid or spent twice.

    Args:
        run_id: its id, or "latest".
        respend: write lost texts again; if they differ, vote and pay again.

    Raises:
        WaspError: there is no such run, or it fails again.
    """
    summary = dict(start.resume(run_id, respend))
    return Result(summary["run_id"], summary)


def result(run_id: str) -> Result:
    """Return a finished run by its id, or the last one by "latest".

    Raises:
        WaspError: there is no such run, or it is not finished.
    """
    manifest = stored_runs.resumable_manifest(run_id)
    run_id = manifest["run_id"]
    summary = stored_runs.read_summary(open_artifacts(state_folder()), manifest)
    if summary is None:
        raise ConfigError(
            f"Run {run_id} is not finished. Finish it with: wasp.resume('{run_id}'), or wasp resume {run_id}"
        )
    return Result(run_id, summary)


@overload
def compare(
    config: str | Path, changes: Changes | None = None, *, plan: Literal[False] = False
) -> Comparison: ...


@overload
def compare(config: str | Path, changes: Changes | None = None, *, plan: Literal[True]) -> Json: ...


def compare(
    config: str | Path, changes: Changes | None = None, *, plan: bool = False
) -> Comparison | Json:
    """Run a comparison; finished cells are reused. With `plan`, return what it would spend, and run nothing."""
    done = dict(start.compare(config=Path(config), plan=plan, set_=_options(changes)))
    if plan:
        return done
    return Comparison(done)


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


def _in_frame(report: Path) -> str:
    """Return a page in a frame, for notebooks."""
    # Sandboxed: the page contains generated texts, and must not reach the notebook.
    page = escape(report.read_text(encoding="utf-8"))
    return f'<iframe sandbox="allow-scripts" srcdoc="{page}" width="100%" height="640"></iframe>'
