"""Known vulnerabilities of the packages that are installed here; `make check` runs it.

Asks PyPI's advisories through pip-audit. A package index that knows no advisories (a mirror, no network) cannot be
asked: that is said, and is no failure unless WASP_ADVISORIES=required. Advisories that were looked at and accepted
stand in infra/accepted_advisories.yaml, each with its reason.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ACCEPTED = Path(__file__).with_name("accepted_advisories.yaml")
MODELS = Path(__file__).with_name("models.txt")
"""Packages that are installed without those that they name."""
COMMAND = ("pip_audit", "--local", "--skip-editable", "--format", "json", "--progress-spinner", "off", "--timeout", "5")


def main() -> int:
    """Print the verdict; return 1 where a package has an advisory that nobody accepted."""
    consistent = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    alone = re.findall(r"(?m)^([\w-]+)==", MODELS.read_text(encoding="utf-8"))
    problems = [line for line in consistent.stdout.splitlines() if line.split()[0] not in alone]
    if consistent.returncode and problems:
        print("\n".join(problems))
        return 1
    accepted = yaml.safe_load(ACCEPTED.read_text(encoding="utf-8")) or {}
    asked = subprocess.run([sys.executable, "-m", *COMMAND], capture_output=True, text=True)
    problem = ""
    try:
        packages = json.loads(asked.stdout)["dependencies"]
    except (ValueError, KeyError):
        packages, problem = [], asked.stderr.strip().rsplit("\n", 1)[-1]
    words, passed = verdict(packages, accepted, problem)
    print(words)
    return 0 if passed else 1


def verdict(packages: list[dict[str, Any]], accepted: Mapping[str, str], problem: str = "") -> tuple[str, bool]:
    """Return what is said of the packages, and whether it passes.

    packages: as pip-audit lists them (name, version, vulns or skip_reason). accepted: id of an advisory -> reason.
    """
    looked_at = [one for one in packages if "skip_reason" not in one]
    if not looked_at:
        why = problem or "the package index here has none"
        required = os.environ.get("WASP_ADVISORIES") == "required"
        return f"Dependencies: NOT audited, advisories cannot be asked for ({why})", not required
    found = [
        f"{one['name']} {one['version']}: {vulnerability['id']}, mended in {', '.join(vulnerability['fix_versions'])}"
        for one in looked_at
        for vulnerability in one["vulns"]
        if not {vulnerability["id"], *vulnerability["aliases"]} & set(accepted)
    ]
    head = f"Dependencies: {len(looked_at)} of {len(packages)} audited, {len(found)} with advisories"
    return "\n  ".join([head, *found]), not found


if __name__ == "__main__":
    sys.exit(main())
