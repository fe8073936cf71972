"""A setting that cannot be, or that means nothing with the others, is one clear error that names its field."""

import math
from typing import Any

import pytest

from connectors.interfaces.errors import ConfigError
from flows.catalog import find_flow
from flows.config.files import check_config
from tests.support.runs.pipeline import merged, values

BOTH = {"registry": "parties.yaml", "exchange": "exchange"}
FEDERATED = {"private": None, "parties": BOTH}
KERNEL = {"guidance": "kernel"}
CORPUS = {"path": "corpus.csv", "source": "a forum", "licence": "cc-by-4.0"}
NO_DENSITY = (
    "public_corpus: this run releases no density that could label its texts. Use the method wasp"
)
NGRAM = {"name": "a", "connector": "ngram", "model": "helpdesk"}
REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "wasp": [
        # numbers and choices out of range
        ({"privacy": {"epsilon": 0}}, "privacy.epsilon"),
        ({"privacy": {"epsilon": "lots"}}, "privacy.epsilon"),
        ({"privacy": {"delta": 0}}, "privacy.delta"),
        (
            {"privacy": {"delta": 0.5}},
            "privacy.delta: 0.5 is not below 0.01: it permits publishing one record in 2",
        ),
        ({"privacy": {"delta": 0.01}}, "privacy.delta: 0.01 is not below 0.01"),
        ({"privacy": {"delta": 1e-300}}, "privacy.delta: 1e-300 is not above 1e-12"),
        ({"privacy": {"delta": math.nan}}, "privacy.delta"),
        ({"privacy": {"epsilon": True}}, "privacy.epsilon: true and false"),
        ({"method": {"iterations": True}}, "method.iterations: true and false"),
        (
            {"plms": [{"name": "a", "model": "stories", "temperature": True}]},
            "plms.0.temperature: true and false",
        ),
        ({"limits": {"max_dollars": True}}, "limits.max_dollars: true and false"),
        ({"method": {"votes": 0}}, "method.votes"),
        ({"method": {"votes": 1000}}, "method.votes"),
        ({"method": {"examples": 1}}, "method.examples"),
        ({"method": {"iterations": 0}}, "method.iterations"),
        ({"method": {"samples": 0}}, "method.samples"),
        ({"private": {"rows": 0}}, "private.rows"),
        ({"private": {"rows": 10, "of": 5}}, "of (5)"),
        ({"private": {"classes": {"a": []}}}, "or '*' for all other codes"),
        ({"private": {"classes": {"a": ["I50*"], "b": ["*"]}}}, "Write 'I50'"),
        (
            {"private": {"classes": {"a": ["I50", "*"], "b": ["*"]}}},
            "the prefix '*' belongs to two classes",
        ),
        ({"plms": []}, "plms: needs at least 1 entries, has 0"),
        (
            {"plms": [{"name": "../x", "model": "stories"}]},
            "plms.0.name: is no valid name. Write letters, digits",
        ),
        ({"student": {"kind": "oracle"}}, "student.kind"),
        ({"evaluation": {"fid_reference": "public"}}, "fid_reference"),
        (
            {"evaluation": {"unnoised_figures": True}},
            "evaluation.unnoised_figures compares with the records without noise",
        ),
        ({"privacy": None}, "privacy: must be a group of names and values, not None"),
        # unknown keys and names used twice
        ({"privacy": {"epsilom": 4}}, "privacy.epsilom: unknown key; did you mean 'epsilon'?"),
        ({"seed": 2}, "seed: unknown key; did you mean 'execution.seed' or 'private.seed'?"),
        ({"sede": 2}, "sede: unknown key; did you mean 'execution.seed'"),
        ({"epsilon": 2}, "epsilon: unknown key; did you mean 'privacy.epsilon'?"),
        ({"method": {"delta": 2}}, "method.delta: unknown key; did you mean 'privacy.delta'?"),
        ({"plms": [{"name": "a", "conector": "ngram"}]}, "did you mean 'connector'"),
        ({"plms": [NGRAM, NGRAM]}, "'a' is used twice"),
        (
            {"plms": [NGRAM, NGRAM | {"name": "A"}]},
            "plms: the name 'A' differs from 'a' in case only",
        ),
        ({"plms_used": ["writer"]}, "there is no PLM 'writer'. Choose from clerk, novelist"),
        # where steps run
        (
            {"execution": {"task_runner": "threads", "cluster": "tcp://host:8786"}},
            "cluster needs task_runner dask",
        ),
        # public rows
        ({"private": {"rows_are_public": True}}, "needs a number of rows"),
        ({"private": {"class_alpha": 1.0}}, "draws public rows"),
        (
            {"private": {"rows": 60, "rows_are_public": True, "of": 120}},
            "of (120) has no effect on public rows",
        ),
        # guidance
        (
            {"private": {"declared_rows": 120}, "method": {"guidance": "auto", "iterations": 1}},
            "Set iterations to 2",
        ),
        ({"private": None}, "private: set either the private rows"),
        ({"method": KERNEL | {"iterations": 1}}, "Set iterations to 2 or more"),
        ({"method": KERNEL | {"votes": 1}}, "votes: 1 has no effect with guidance: kernel"),
        ({"method": KERNEL, "privacy": {"calibration": "paper"}}, "Set method.guidance: votes"),
        (
            {
                "method": KERNEL,
                "privacy": {"protects": "person", "joined_by": "max"},
                "private": {"person": "customer"},
            },
            "Write mean",
        ),
        # a public corpus
        ({"public_corpus": CORPUS}, NO_DENSITY),
        ({"public_corpus": CORPUS | {"licence": ""}}, "public_corpus.licence: is empty"),
        ({"public_corpus": {"path": "corpus.csv", "source": "a forum"}}, "licence: is missing"),
        (
            {"method": KERNEL, "public_corpus": CORPUS | {"label": "topic"}},
            "label: the release labels these texts, no class is read. Remove it",
        ),
        # persons
        ({"privacy": {"protects": "person"}}, "private.person"),
        (
            {"privacy": {"protects": "person"}, "private": {"person": "patient", "rows": 60}},
            "private.of",
        ),
        # parties
        ({"parties": BOTH}, "that hold them"),
        (FEDERATED | {"method": KERNEL}, "does not support several parties"),
        (FEDERATED | {"method": {"iterations": 1}}, "no party is asked"),
        # the student
        (
            {"student": {"kind": "linear", "learning_rate": 0.001}},
            "has no effect on a student of kind linear",
        ),
    ],
    "aug_pe": [
        ({"public_corpus": CORPUS}, NO_DENSITY),
        ({"method": {"keywords": "private_vocabulary"}}, "needs a public vocabulary"),
        ({"privacy": {"calibration": "paper"}}, "method.style to wasp_baseline"),
        ({"method": {"votes": 8}}, "method.votes: unknown key"),
    ],
    "pre_text": [
        ({"public_corpus": CORPUS}, NO_DENSITY),
        ({"filler": {"name": "clerk", "model": "helpdesk"}}, "'clerk' is used twice"),
    ],
    "fusegen": [
        ({"public_corpus": CORPUS}, NO_DENSITY),
        ({"private": {"path": "rows.csv"}}, "private: this flow uses no private data"),
        ({"privacy": {"epsilon": 4}}, "its epsilon is 0"),
        ({"plms_used": ["clark"]}, "there is no PLM 'clark'. Choose from clerk, novelist"),
    ],
    "only_private": [
        (
            {"privacy": {"epsilon": 4}},
            "this method adds no noise and gives no guarantee. Write inf",
        ),
        ({"plms": [NGRAM]}, "plms: this flow writes no text"),
        ({"public_corpus": CORPUS}, "public_corpus: this flow writes no text"),
        ({"method": {"iterations": 3}}, "iterations: this flow writes no text"),
        ({"student": {"epochs": 3}}, "method.passes"),
        ({"method": {"training": "as_published"}}, "Set student.kind: finetune"),
    ],
    "dp_sgd_gen": [
        ({"public_corpus": CORPUS}, NO_DENSITY),
        ({"parties": BOTH}, "does not support several parties"),
        ({"method": {"seed": 3}}, "method.seed: unknown key"),
        ({"method": {"declared_rows": None}}, "method.declared_rows"),
        ({"privacy": {"protects": "person"}}, "privacy.protects"),
        ({"privacy": {"adjacency": "replace_one"}}, "privacy.adjacency"),
        ({"private": {"rows": 50}}, "Set private.of"),
        ({"plms": [NGRAM]}, "connector: hf"),
    ],
    "dp_kps": [
        ({"public_corpus": CORPUS}, NO_DENSITY),
        ({"privacy": {"epsilon": "inf"}}, "DP-KPS needs noise"),
        ({"privacy": {"vocabulary_epsilon": 4.0}}, "must be below epsilon"),
        ({"privacy": {"protects": "person"}}, "privacy.protects"),
        ({"plms": []}, "at least one language model"),
        ({"method": {"texts": "phrases"}}, "Remove plms"),
        ({"method": {"length": 31}}, "must be at least length"),
        (
            {"method": {"sampling": "independent", "top": 5}},
            "Remove top, or set sampling: sharpened",
        ),
        (
            {"method": {"sampling": "independent", "top": None, "sharpness": 2.0}},
            "Remove sharpness",
        ),
    ],
    "kd_tutor": [
        ({"public_corpus": CORPUS}, NO_DENSITY),
        ({"discriminator": {"queries": 72}}, "must be below the number of texts"),
        ({"method": {"samples": 73}}, "must be at least samples"),
        ({"privacy": {"protects": "person"}}, "privacy.protects"),
        ({"privacy": {"tutor_epsilon": 4.0}}, "must be below epsilon"),
        (
            {"class_balance": "balanced", "privacy": {"tutor_epsilon": 0.1}},
            "privacy.tutor_epsilon is 0.1",
        ),
        ({"privacy": {"calibration": "paper"}, "discriminator": {"noise": "laplace"}}, "Set tight"),
    ],
}


@pytest.mark.parametrize(
    ("flow", "changes", "message"), [(flow, *row) for flow, rows in REFUSED.items() for row in rows]
)
def test_it_is_refused_with_its_field_and_the_file(
    flow: str, changes: dict[str, Any], message: str
) -> None:
    config = find_flow(flow).config
    check_config(config, values(flow), "run.yaml")
    with pytest.raises(ConfigError) as refused:
        check_config(config, merged(values(flow), changes), "run.yaml")
    assert message in str(refused.value)
    assert "run.yaml" in str(refused.value)
