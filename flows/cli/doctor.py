"""Check whether the pipeline can run on this machine, and suggest fixes."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.interfaces.counts import counted
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from connectors.interfaces.packages import install_command
from connectors.interfaces.redaction import redact
from flows.runtime.state_folder import check_room, state_folder
from flows.runtime.stores import open_artifacts, open_ledger

if TYPE_CHECKING:
    from flows.config.base import AnyConfig
    from flows.config.execution import Execution


def examine(config: AnyConfig | None = None) -> Json:
    """Run every check; each reports its result, or the problem and its fix.

    With a configuration, check everything that its run needs, then, if it has no problem (`ready`), request one text
    from each language model and cache it for the run.
    """
    home = state_folder()
    problems: list[str] = []
    checks: list[tuple[str, Callable[[Path], str]]] = [
        ("names", _names),
        ("variables", _variables),
        ("state folder", _folder),
        ("prefect server", _prefect),
        ("exact noise", _noise),
        ("privacy ledger", _ledger),
        ("artifacts", _artifacts),
        ("sentence encoder", _encoder),
        ("tracking", _tracking),
    ]
    if config is not None:
        from flows.engine.checks import problems_of

        problems = [str(problem) for problem in problems_of(config, home)]
        checks.append(("task runner", partial(_runner, config.execution)))
        checks += [("configuration", partial(_refuse, problem)) for problem in problems]
        # No model is called for a configuration with problems: a call may cost money, and the run cannot start.
        call = partial(_refuse, "not called. Correct the configuration first.")
        if not problems:
            checks.append(("configuration", lambda _: "rows, models and packages are available"))
            call = partial(_model, config)
        checks += [(f"PLM {plm.name}", partial(call, plm.name)) for plm in config.models]
    results = [_check(name, check, home) for name, check in checks]
    return {
        "healthy": all(result["ok"] for result in results),
        "checks": results,
        "ready": not problems,
    }


def _refuse(problem: str, *_: object) -> str:
    raise ConfigError(problem)


def _check(name: str, check: Callable[[Path], str], home: Path) -> Json:
    try:
        return {"what": name, "ok": True, "found": check(home)}
    except Exception as error:  # noqa: BLE001  (a doctor reports every failure)
        return {"what": name, "ok": False, "found": redact(str(error)) or type(error).__name__}


def _names(_: Path) -> str:
    from wasp.clashes import find_clashes

    clashes = [message for messages in find_clashes() for message in messages]
    if clashes:
        raise RuntimeError("; ".join(clashes))
    return "no file of your project has the name of a package of wasp-synth"


def _variables(_: Path) -> str:
    from flows.config.environment import PREFIX, Environment, unknown_variables

    unknown = unknown_variables()
    if unknown:
        known = ", ".join(f"{PREFIX}{name.upper()}" for name in Environment.model_fields)
        raise RuntimeError(
            f"{', '.join(unknown)}: no such variable. Correct or unset it; there are {known}"
        )
    return "all WASP_ variables are known"


def _folder(home: Path) -> str:
    check_room(home)
    return f"{home}, {shutil.disk_usage(home).free / 1e9:.0f} GB free"


def _prefect(_: Path) -> str:
    import prefect.server.api.server  # noqa: F401  (fails if fastapi is too new)

    return f"prefect {importlib.metadata.version('prefect')}, fastapi {importlib.metadata.version('fastapi')}"


def _noise(_: Path) -> str:
    import numpy as np

    from tasks.private.noise.discrete import add_discrete_gaussian

    # At this scale all of 1000 draws are 0 with a probability below 10^-3000.
    drawn = add_discrete_gaussian(np.zeros(1000, dtype=np.int64), 452.0)
    if not drawn.any():
        raise RuntimeError("opendp: the sampler returned no noise. Reinstall opendp.")
    return f"opendp {importlib.metadata.version('opendp')}"


def _ledger(home: Path) -> str:
    from tasks.accounting.composition import second_opinion

    ledger = open_ledger(home)
    problems = ledger.verify(second=second_opinion)
    if problems:
        raise RuntimeError("; ".join(problems))
    return f"sound, {counted(len(ledger.datasets()), 'dataset')}"


def _artifacts(home: Path) -> str:
    artifacts = open_artifacts(home)
    artifacts.check()
    return artifacts.where()


def _runner(execution: Execution, _: Path) -> str:
    from flows.engine.checks import check_runner

    check_runner(execution)
    if not execution.cluster:
        return execution.task_runner
    host, _colon, port = execution.cluster.rpartition("/")[2].partition(":")
    with socket.create_connection((host, int(port or 0)), timeout=5):
        return f"{execution.task_runner} at {execution.cluster}"


def _encoder(_: Path) -> str:
    from connectors.embedders.registry import open_embedder

    embedder = open_embedder("sentence_transformers", "embedded", {})
    return f"{embedder.embed(['hello']).shape[1]} dimensions"


def _model(config: AnyConfig, plm: str, home: Path) -> str:
    from connectors.interfaces import cancellation
    from flows.config.task_files import load_task
    from flows.engine.preview import sample_prompts
    from flows.engine.tools import RunTools

    tools = RunTools(config, home)
    # The first prompt of the run itself: the run finds its completion in the cache.
    prompts = sample_prompts(tools, load_task(config.task), plm, 1)[:1]
    with cancellation.work():
        completion = tools.model(plm).complete(prompts)[0]
    if completion.finish_reason not in ("stop", "length"):
        raise RuntimeError(
            f"{plm}: completion ended with '{completion.finish_reason}' ({completion.error or 'no text'})"
        )
    usage = f"{completion.tokens_out} tokens, {completion.dollars:.4f} dollars"
    if completion.estimated:
        usage += " (both estimated from bytes; the server reports no usage)"
    return f"{usage}: {completion.text[:60]}"


def _tracking(home: Path) -> str:
    from connectors.tracking.address import reachable, redact
    from flows.runtime.stores import tracking_store

    # Tracking is optional: its problems name how to send the runs later.
    if importlib.util.find_spec("mlflow") is None:
        raise RuntimeError(
            f"mlflow is not installed; `wasp push --all` sends runs later. Install it: {install_command('tracking')}"
        )
    uri, _ = tracking_store(None, home)
    if not reachable(uri):
        raise RuntimeError(f"{redact(uri)}: no response. Send the runs later: wasp push --all")
    return redact(uri)
