"""A student that adapts to the private rows: moments come out of the run's own epsilon; who cannot pay is told."""

import math
from typing import Any

import pytest

from connectors.interfaces.errors import ConfigError
from flows.engine.finish import adaptation_remarks
from flows.engine.plan import planned
from flows.engine.prepare import make_noise
from flows.engine.text import plan as plan_words
from flows.methods.dp_kps.config import DpKpsConfig
from flows.methods.fusegen.config import FuseGenConfig
from flows.methods.only_private.config import OnlyPrivateConfig
from flows.methods.wasp.config import WaspConfig
from tasks.accounting.composition import epsilon_of
from tests.support.runs.pipeline import FURTHER, METHODS, SMALL

ADAPTS = {"kind": "mlp", "adaptation": "coral", "adaptation_from": "moments"}
PARTS = {"dp_kps": DpKpsConfig, "wasp": WaspConfig, "fusegen": FuseGenConfig, "only_private": OnlyPrivateConfig}


def config(flow: str = "wasp", student: dict[str, Any] | None = None, **changes: Any) -> Any:
    values = SMALL | {"method": METHODS.get(flow, {})} | FURTHER.get(flow, {})
    student = ADAPTS | (student or {})
    return PARTS[flow].model_validate({**values, "student": student, **changes})


@pytest.mark.parametrize(
    ("flow", "privacy", "releases"),
    [
        ("wasp", {"epsilon": 4.0}, 3),
        ("wasp", {"epsilon": 4.0, "calibration": "paper"}, 3),
        ("dp_kps", {"epsilon": 4.0}, 3),
        ("dp_kps", {"epsilon": 4.0, "setting": "pure"}, 3),
    ],
    ids=["wasp", "wasp-paper", "dp_kps", "dp_kps-pure"],
)
def test_moments_and_everything_else_are_what_was_promised_together(
    flow: str, privacy: dict[str, Any], releases: int
) -> None:
    noise = make_noise(config(flow, privacy=privacy))
    assert len(noise.charges) == releases
    assert noise.moments is not None
    assert noise.charges[-1] == noise.moments.charge
    assert noise.moments.epsilon_exact == pytest.approx(1.0, rel=1e-3)
    together = epsilon_of([dict(one.event) for one in noise.charges], noise.delta)
    assert (noise.epsilon_stated, noise.epsilon_exact) == (4.0, together)
    assert together <= 4.0
    if flow == "dp_kps" and "setting" not in privacy:
        assert together == pytest.approx(4.0, rel=1e-4)


def test_without_adaptation_the_noise_is_what_it_was() -> None:
    plain = make_noise(config(student={"adaptation": "none", "adaptation_from": "public"}))
    assert plain.moments is None
    assert plain.sigma < make_noise(config()).sigma


def test_a_person_and_a_fixed_number_of_rows_cost_more_noise() -> None:
    private = SMALL["private"] | {"person": "customer"}
    person = make_noise(config(private=private, privacy={"protects": "person", "rows_per_person": 3})).moments
    record, exactly = make_noise(config()).moments, make_noise(config(private=SMALL["private"] | {"rows": 50})).moments
    assert None not in (person, record, exactly)
    assert person.sensitivity == pytest.approx(3 * record.sensitivity)
    assert person.charge.protects == "person"
    assert exactly.sensitivity == pytest.approx(math.sqrt(2) * record.sensitivity, rel=0.01)


def test_the_plan_tells_what_the_adaptation_costs() -> None:
    plan = planned(config())
    assert plan["moments"]["directions"] == 32
    told = plan_words(plan)
    assert "releases      2 noisy votes" in told
    assert "adaptation    one release at the end" in told
    assert "epsilon 1.0000 of the total" in told


def test_noise_that_drowned_the_rows_is_told() -> None:
    assert len(adaptation_remarks({"adapted_to": 0})) == 1
    assert adaptation_remarks({"adapted_to": 30}) == adaptation_remarks({}) == ()


@pytest.mark.parametrize(
    ("flow", "student", "changes", "words"),
    [
        ("wasp", {"kind": "finetune"}, {}, "needs adaptation coral and kind mlp"),
        ("wasp", {"adaptation": "none"}, {}, "needs adaptation coral and kind mlp"),
        ("wasp", {"adaptation_epsilon": 4.0}, {}, "must be below privacy.epsilon"),
        ("wasp", {}, {"privacy": {"epsilon": "inf"}}, "adds no noise"),
        (
            "wasp",
            {},
            {"private": None, "parties": {"registry": "p.yaml", "exchange": "x"}},
            "this run reads no private rows",
        ),
        ("wasp", {"adaptation_from": "public"}, {}, "student.adaptation_from: moments"),
    ],
    ids=["finetune", "none", "epsilon", "inf", "parties", "public"],
)
def test_who_cannot_pay_for_moments_is_told_so(
    flow: str, student: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        config(flow, student, **changes)


def test_flows_without_rows_or_without_noise_cannot_pay() -> None:
    with pytest.raises(ValueError, match="this run reads no private rows"):
        FuseGenConfig.model_validate(
            {name: SMALL[name] for name in ("task", "test", "plms", "embedder")} | {"student": ADAPTS}
        )
    with pytest.raises(ValueError, match="adds no noise"):
        OnlyPrivateConfig.model_validate({name: SMALL[name] for name in ("task", "private")} | {"student": ADAPTS})


def test_too_little_left_for_the_vocabulary_is_refused() -> None:
    with pytest.raises(ConfigError, match="vocabulary_epsilon"):
        make_noise(config("dp_kps", {"adaptation_epsilon": 3.0}, privacy={"epsilon": 4.0, "vocabulary_epsilon": 3.9}))
