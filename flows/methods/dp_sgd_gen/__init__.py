"""DP-SGD + generation: trains a language model on private records, then writes (Yue et al. 2023)."""

from __future__ import annotations

from flows.engine.method import OWN_DATA, Method, Preset
from flows.methods.dp_sgd_gen.config import DpSgdGenConfig
from flows.methods.dp_sgd_gen.trainable import check_model
from flows.releases.budget import training_releases

METHOD = Method(
    name="dp_sgd_gen",
    flow_path="flows.methods.dp_sgd_gen.flow.dp_sgd_gen",
    config=DpSgdGenConfig,
    summary="one local language model is trained on the private rows by DP-SGD, then writes",
    presets=(
        Preset("demo", "dp_sgd_gen_here.yaml", "The demo's texts and the embedded GPT-2: no download, a minute."),
        Preset("paper", "papers/dp_sgd_gen_imdb.yaml", "IMDb with GPT-2 from the hub and LoRA of rank 8."),
        Preset("own-data", "dp_sgd_gen_own_data.yaml", OWN_DATA, ("private.path", "method.declared_rows")),
    ),
    releases=training_releases,
    check_models=check_model,
)
