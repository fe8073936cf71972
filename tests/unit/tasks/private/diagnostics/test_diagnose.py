import ast
import inspect
import json

import numpy as np
import pytest

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import InputError
from tasks.metrics.metrics import fid
from tasks.private.diagnostics import diagnose
from tasks.private.diagnostics.diagnose import NotPrivate, private_fid


def _sets():
    generator = np.random.default_rng(0)
    return generator.normal(size=(40, 8)), generator.normal(1.0, size=(30, 8))


@pytest.mark.parametrize("shown", [str, repr, "{}".format, "{:.3f}".format, canonical, lambda n: f"FID {n:.1f}"])
def test_every_way_to_write_the_number_says_not_private(shown):
    a, b = _sets()
    assert private_fid(a, b).value == fid(a, b)
    assert "not private" in shown(private_fid(a, b))


def test_the_marked_number_does_not_turn_into_a_plain_one_unnoticed():
    number = private_fid(*_sets())
    with pytest.raises(TypeError):
        float(number)
    with pytest.raises(TypeError):
        json.dumps(number)
    with pytest.raises(AttributeError):
        number.value = 0.5
    with pytest.raises(TypeError):
        NotPrivate(0.5, "why", "private")


def test_errors_do_not_tell_how_many_private_rows_there_are_or_what_they_hold():
    synthetic, _ = _sets()
    with pytest.raises(InputError) as caught:
        private_fid(synthetic, np.full((73, 8), np.nan))
    assert "73" not in str(caught.value)


def test_the_module_neither_prints_nor_logs():
    tree = ast.parse(inspect.getsource(diagnose))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert "print" not in names
    assert modules <= {"numpy"}
