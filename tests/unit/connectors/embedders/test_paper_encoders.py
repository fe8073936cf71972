"""The encoders of DP-KPS (Nagesh et al. 2025, Table 1) from folders: tiny models with random weights."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from connectors.embedders.registry import open_embedder
from tests.support.models.tiny import SENTENCES, save_bert, save_mpnet

TEXTS = ["heart failure", *SENTENCES[:3]]


def mean_of_tokens(folder: Path) -> np.ndarray:
    """Return the normalised mean of a model's last hidden states, without sentence-transformers."""
    words, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    rows = []
    for text in TEXTS:
        asked = words(text, return_tensors="pt", truncation=True, max_length=64)
        asked.pop("token_type_ids", None)
        with torch.no_grad():
            rows.append(model(**asked).last_hidden_state[0].mean(dim=0).numpy())
    result = np.stack(rows).astype(np.float64)
    return np.asarray(result / np.linalg.norm(result, axis=1, keepdims=True))


@pytest.mark.parametrize(
    "save", [save_mpnet, save_bert], ids=["as all-mpnet-base-v2", "as BioBERT"]
)
def test_an_encoder_of_a_folder_gives_the_mean_of_its_tokens(
    tmp_path: Path, save: Callable[[Path], Path]
) -> None:
    folder = save(tmp_path / "model")
    embedder = open_embedder("sentence_transformers", str(folder))
    embedder.check()
    result = embedder.embed(TEXTS)
    assert result.shape == (len(TEXTS), 32)
    assert np.abs(result - mean_of_tokens(folder)).max() < 1e-4
    assert len(np.unique(result.round(3), axis=0)) == len(TEXTS)
