"""Reads what infra/ declares: the compose file with its variables filled in, and the programs that check it."""

import re
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.support.environment import without_settings
from tests.support.paths import ROOT

INFRA = ROOT / "infra"
SECRETS = {
    "WASP_AUTH": "admin:correct-horse-battery",
    "POSTGRES_PASSWORD": "pg0",
    "PREFECT_DB_PASSWORD": "pg1",
    "MLFLOW_DB_PASSWORD": "pg2",
    "LEDGER_DB_PASSWORD": "pg3",
    "PREFECT_SERVER_ENCRYPTION_KEY": "eTj6VgGK1tRQtTHddNRKCVTEp-hl2_dvIA0yYjtL7h0=",
}
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?+])([^{}]*))?\}")


class MissingVariable(Exception):
    pass


def compose(variables: dict[str, str] | None = None) -> dict[str, Any]:
    """Return compose.yaml as Docker would read it with these variables."""
    return filled(yaml.safe_load((INFRA / "compose.yaml").read_text()), variables or SECRETS)


def filled(value: Any, variables: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: filled(entry, variables) for key, entry in value.items()}
    if isinstance(value, list):
        return [filled(entry, variables) for entry in value]
    if not isinstance(value, str):
        return value
    while _VARIABLE.search(value):  # from the inside out: a default may hold a variable
        value = _VARIABLE.sub(lambda match: _substitute(match, variables), value)
    return value


def _substitute(match: re.Match[str], variables: dict[str, str]) -> str:
    name, mark, rest = match.groups()
    if mark == "?" and not variables.get(name):
        raise MissingVariable(f"{name}: {rest}")
    if mark == "+":
        return rest if variables.get(name) else ""
    return variables.get(name) or (rest if mark == "-" else "")


def beside_python(name: str) -> str:
    """Return a program that a package of the group `dev` brings."""
    return str(Path(sys.executable).with_name(name))


def plain_environment(**more: str) -> dict[str, str]:
    stored = without_settings()
    return (
        stored
        | {"PATH": f"{Path(sys.executable).parent}:{stored['PATH']}", "WASP_CODE": str(ROOT)}
        | more
    )
