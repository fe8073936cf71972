"""The paid step of a density. Only count.py reads private records, once."""

from collections.abc import Mapping, Sequence
from functools import partial

from connectors.interfaces.artifacts import ArtifactRef
from tasks.accounting.integer_noise import SumNoise
from tasks.private.density.count import release_guidance
from tasks.private.density.features import KERNEL
from tasks.private.density.promise import DensityPrivacy
from tasks.private.sums import SumJob
from tasks.steps.reuse import step_key
from tasks.steps.step import paid_step
from tasks.steps.tools import Tools
from tasks.steps.values import ChargedDataset, TextTable
from tasks.writing.texts import read_vectors
from tasks.writing.usable_texts import require_usable


@paid_step("estimate the private density", versions={"guidance": 1})
def estimate_density(
    tools: Tools,
    payer: ChargedDataset,
    noise: SumNoise[DensityPrivacy],
    needed: Mapping[str, int],
    written: Sequence[TextTable],
) -> tuple[ArtifactRef, str]:
    """Release the density of the private rows once to guidance/release.parquet.

    `needed`: the classes, with the usable texts that a release needs of each. `written`: the texts of the first round
    with vectors, of which only the dimension is used. The same rows, guarantee
    and embedder give the same release in any run.
    """
    privacy = noise.privacy
    dimension = int(read_vectors(tools, written[:1]).shape[1])
    parameters: dict[str, object] = {
        "event": noise.event,
        "sigma_int": noise.scale_int,
        "steps": noise.privacy.steps,
        "adjacency": privacy.adjacency,
        "protects": [privacy.protects, privacy.rows_per_person],
        "private": payer.fingerprint,
        "rows": tools.private.where.choice,
        "kernel": KERNEL,
        "labels": list(needed),
        "embedder": tools.embedder.identity,
    }
    # Neither the run nor its texts are inputs of the key: a later run with the same rows reads this release.
    job = SumJob(payer, noise, step_key("guidance", parameters, {}))
    check = partial(require_usable, tools, written, needed)
    return release_guidance(tools, job, tuple(needed), dimension, check)
