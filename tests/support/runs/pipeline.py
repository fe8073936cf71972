"""Runs the real command in a process of its own, against a real Prefect server, in a state folder of the test."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from tests.support.environment import without_settings
from tests.support.paths import ROOT
from tests.support.processes import command_forks
from tests.support.servers.prepared_databases import prepare_home

SMALL: dict[str, Any] = {
    "task": "support_desk",
    "private": {"path": "builtin:support_desk/private.parquet", "name": "desk"},
    "test": {"path": "builtin:support_desk/test.parquet", "rows": 90},
    "plms": [
        {"name": "clerk", "connector": "ngram", "model": "helpdesk"},
        {"name": "novelist", "connector": "ngram", "model": "stories"},
    ],
    "embedder": {"connector": "hashing", "model": "", "options": {"dimension": 128}},
    "method": {"guidance": "votes", "iterations": 3, "samples": 72, "examples": 4},
    "student": {"kind": "linear"},
    "execution": {"max_workers": 2, "seed": 0},
}
"""A whole run in a few seconds: two embedded models, hashed embeddings, a linear student."""

METHODS: dict[str, dict[str, Any]] = {
    "wasp": SMALL["method"],
    "pre_text": {"iterations": 2, "samples": 36, "population": 24, "look_ahead": 2},
    "aug_pe": {"iterations": 2, "samples": 24, "variations": 2, "variation": "blanks"},
    "dp_sgd_gen": {
        "samples": 36,
        "declared_rows": 120,
        "batch_rows": 60,
        "steps": 12,
        "rank": 2,
        "tokens": 64,
    },
    "dp_kps": {"samples": 36, "vocabulary_terms": 30, "length": 4, "top": 8},
    "kd_tutor": {"samples": 36, "written": 72},
    "dp_sgd_student": {"training": {"declared_rows": 120, "batch_rows": 60, "steps": 12}},
    "fusegen": {"iterations": 3, "samples": 108, "examples": 4, "judge": "linear", "boosts": 3},
    "only_private": {"passes": 5},
    "aug_pe as in WASP": {"style": "wasp_baseline", "iterations": 3, "samples": 360},
}
"""Settings of each method that make two releases; one, of a model, by dp_sgd_gen."""

FURTHER: dict[str, dict[str, Any]] = {
    "dp_sgd_gen": {"plms": [{"name": "learner", "connector": "hf", "model": "embedded"}]},
    "dp_kps": {"vocabulary": {"path": "builtin:vocabularies/demo.parquet"}},
    "dp_sgd_student": {"plms": None},
    "fusegen": {"private": None},
    "only_private": {"plms": None, "student": {"kind": "mlp"}, "execution": None},
    "kd_tutor": {"discriminator": {"teachers": 3, "queries": 20}},
}
"""Changes for methods that cannot work with the rest of SMALL."""


@dataclass
class Pipeline:
    """The command in one state folder."""

    home: Path
    api: str = ""
    extra: dict[str, str] = field(default_factory=dict)
    method: str = field(default="wasp", kw_only=True)

    @property
    def environment(self) -> dict[str, str]:
        stored = without_settings()
        api = {"PREFECT_API_URL": self.api} if self.api else {}
        return stored | {"WASP_HOME": str(self.home), "HF_HUB_OFFLINE": "1"} | api | self.extra

    def config(self, **changes: Any) -> Path:
        """Write a small configuration with `changes` of its groups; return its place."""
        chosen = values(self.method, **changes)
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        prepare_home(self.home)
        path = self.home.parent / f"{self.home.name}-config.yaml"
        return written(path, {name: value for name, value in chosen.items() if value is not None})

    def patched(self, code: str) -> "Pipeline":
        """Let every process of the command run some code when it starts, after code of earlier calls."""
        folder = self.home.parent / "site"
        folder.mkdir(exist_ok=True)
        with (folder / "sitecustomize.py").open("a") as file:
            file.write(code)
        self.extra["PYTHONPATH"] = f"{folder}:{ROOT}"
        return self

    def start(self, *arguments: str, folder: Path = ROOT) -> "subprocess.Popen[str]":
        command, pipe = [sys.executable, "-m", "flows.cli.main", *arguments], subprocess.PIPE
        return subprocess.Popen(
            command, cwd=folder, env=self.environment, stdout=pipe, stderr=pipe, text=True
        )

    def call(
        self, *arguments: str, code: int | None = None, folder: Path = ROOT
    ) -> "subprocess.CompletedProcess[str]":
        """Run the command to its end, in a process of its own; with this exit code if one is given."""
        done = command_forks.call(arguments, self.environment, timeout=600, folder=folder)
        assert code in (None, done.returncode), (done.returncode, done.stderr[-4000:])
        return done

    def answer(self, *arguments: str, folder: Path = ROOT) -> dict[str, Any]:
        """Run the command to its end, which must be a success; return the object that it prints."""
        return last_json(self.call(*arguments, "--json", code=0, folder=folder).stdout)

    def entries(self, dataset: str = "desk") -> list[dict[str, Any]]:
        """Return the entries of a dataset in the ledger, oldest first."""
        return list(self.answer("budget", "history", dataset)["entries"])

    def released(self, dataset: str = "desk") -> list[str]:
        """Return the slot of every release in the ledger, oldest first; none for a dataset that it does not know."""
        if dataset not in [
            status["dataset"] for status in self.answer("budget", "show")["datasets"]
        ]:
            return []
        return [
            entry["slot"]
            for entry in self.entries(dataset)
            if entry["kind"] in ("release", "expose")
        ]

    @property
    def flow(self) -> str:
        """The flow of the method."""
        return self.method.split()[0]

    def run(self, **changes: Any) -> dict[str, Any]:
        """Run the flow to its end and return the object it prints."""
        return self.answer("run", self.flow, "--config", str(self.config(**changes)))

    def releases(self, run_id: str) -> dict[str, bytes]:
        """Return the bytes of every release of a run."""
        folder = self.home / "runs" / run_id
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("release.parquet"))
        }

    def answers_per_prompt(self) -> list[int]:
        """Return how many completions the models gave to each prompt, over all starts."""
        from connectors.models.base.completion_store import CompletionStore

        store = CompletionStore(self.home / "completions")
        return [
            count
            for identity in store.identities()
            for count in store.completion_counts(identity).values()
        ]

    def copied(self, home: Path) -> "Pipeline":
        """Return a copy of the state folder."""
        shutil.copytree(self.home, home)
        return Pipeline(home, self.api, method=self.method)

    def with_same_ledger(self, home: Path) -> "Pipeline":
        """Return a fresh state folder with the ledger and its key: noise is read back, never drawn."""
        (home / "private").mkdir(parents=True, mode=0o700)
        home.chmod(0o700)
        for file in (self.home / "private" / "ledger.key", *self.home.glob("ledger.db*")):
            shutil.copy(file, home / file.relative_to(self.home))
        return Pipeline(home, self.api, method=self.method)

    def synthetic(self, run_id: str) -> pd.DataFrame:
        return pd.read_parquet(self.home / "runs" / run_id / "synthetic.parquet")


def last_json(text: str) -> dict[str, Any]:
    return json.loads(text.strip().splitlines()[-1])


def written(path: Path, values: dict[str, Any]) -> Path:
    """Write a configuration; return its path."""
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def values(method: str = "wasp", /, **changes: Any) -> dict[str, Any]:
    """Return a small configuration of a method with `changes` of its groups."""
    own = SMALL | {"method": METHODS[method], **FURTHER.get(method, {})}
    return merged({name: value for name, value in own.items() if value is not None}, changes)


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a configuration, the groups of `changes` put into its groups."""
    made: dict[str, Any] = json.loads(json.dumps(values))
    for name, change in changes.items():
        both = isinstance(change, dict) and isinstance(made.get(name), dict)
        made[name] = made[name] | change if both else change
    return made
