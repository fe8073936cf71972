"""The files that make up each step's meaning. `python -m tests.support.step_versions` writes the record."""

import ast
import hashlib
import json
from functools import cache
from pathlib import Path

import yaml

from tasks.core.reuse import VERSIONS
from tests.support.paths import GOLDEN, ROOT

RECORD = GOLDEN / "step_versions.json"

VOTING = (
    "private/voting/votes private/nearest/search private/nearest/exact private/voting/ballot private/voting/persons"
)
GROUPS = {"COUNTING": VOTING, "NOISE": "private/noise/discrete"}
STEPS = """
generate: steps/generate text/cleaning text/cleaning_rules text/several_texts text/prompts text/keyphrase_prompts
    text/variation
embed: steps/embed
soft_labels: steps/students/soft_labels density/soft_labels
reference: steps/embed
vote: COUNTING NOISE private/data/rows steps/vote
federated_vote: federation/rounds accounting/federated steps/vote
party_vote: private/federation/party_vote COUNTING NOISE private/data/rows federation/rounds accounting/federated
vocabulary: keyphrases/phrases private/releases/keyphrases private/releases/sums NOISE private/data/rows
guidance: density/kernels private/releases/density private/releases/sums private/voting/persons NOISE
    private/data/rows
select_matching: density/kernels density/matching steps/density
weigh_matching: density/kernels density/matching steps/density selection/weights
choose_terms: steps/keyphrases
density: keyphrases/phrases keyphrases/kernels private/releases/keyphrases private/releases/sums NOISE
    private/data/rows
draw_phrases: keyphrases/sequences keyphrases/kernels steps/keyphrases
phrases: steps/keyphrases keyphrases/phrases
tune: private/training/dp_train private/noise/entropy private/training/tuned_writer private/data/rows steps/dp_sgd
labels: private/releases/label_counts private/releases/sums NOISE private/data/rows steps/teachers core/release
teach: private/releases/teachers private/data/rows steps/teachers
answers: private/releases/teachers private/releases/sums NOISE steps/teachers
distill: steps/discriminator steps/teachers private/releases/teachers
select_texts: steps/discriminator text/class_balance
measure_discriminator: steps/discriminator steps/teachers
classify: private/training/tuned_classifier private/training/dp_train private/noise/entropy private/data/rows
    steps/students/dp_classifier
test_classifier: steps/students/dp_classifier students/train
select: selection/examples
judge: steps/fusegen
fuse: steps/fusegen selection/fusegen
weigh: selection/weights
survive: selection/survivors steps/evolution
average: steps/evolution
measure: metrics/metrics metrics/registry steps/students/evaluation students/heads
baseline: steps/students/baseline students/train students/heads students/loop
collect: steps/students/training_set
plain_train: private/training/plain_train steps/students/plain_student private/data/rows students/train
    students/finetune students/transformer students/heads students/loop
train: students/train students/coral students/finetune students/transformer students/heads students/loop
"""
"""Each step with its modules of tasks/ or groups of them, in YAML."""


def _files(modules: str) -> list[str]:
    return [f"tasks/{name}.py" for word in modules.split() for name in GROUPS.get(word, word).split()]


MEANING: dict[str, list[str]] = {step: _files(modules) for step, modules in yaml.safe_load(STEPS).items()}


@cache
def meaning(path: Path) -> str:
    """Return a file's code without docstrings, comments and imports: neither a new explanation nor a move counts."""
    return code(path.read_text(encoding="utf-8"))


def code(source: str) -> str:
    """Return the syntax tree of a module as text, without what `meaning` leaves out."""
    tree = ast.parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {alias.asname or alias.name for node in imports for alias in node.names if _is_ours(node, alias)}
    return ast.dump(_Meaning(modules).visit(tree))


def _is_ours(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
    """Say whether an import binds a module of this repository, whose name a move may change."""
    return (
        isinstance(node, ast.ImportFrom)
        and (ROOT / f"{node.module}.{alias.name}".replace(".", "/")).with_suffix(".py").exists()
    )


class _Meaning(ast.NodeTransformer):
    """Drops docstrings and imports; `module.name` becomes `name` where the module is one of this repository."""

    def __init__(self, modules: set[str]) -> None:
        self.modules = modules

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list):
            documented = body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
            node.body = body[1 if documented else 0 :] or [ast.Pass()]
        return node

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id in self.modules:
            return ast.Name(node.attr, node.ctx)
        return self.generic_visit(node)


def present() -> dict[str, dict[str, object]]:
    """Return version and code hash of every step."""
    found: dict[str, dict[str, object]] = {}
    for step, files in MEANING.items():
        text = "\n".join(meaning(ROOT / name) for name in files)
        found[step] = {"version": VERSIONS[step], "code": hashlib.sha256(text.encode()).hexdigest()[:16]}
    return found


if __name__ == "__main__":
    RECORD.write_text(json.dumps(present(), indent=2) + "\n", encoding="utf-8")
