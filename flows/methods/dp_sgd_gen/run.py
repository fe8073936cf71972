"""A run of DP-SGD + generation: what its steps are asked to do."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import FinalError, TooFewTextsError
from flows.engine.run import Run
from flows.engine.tools import RunTools
from flows.methods.dp_sgd_gen.config import DpSgdGenConfig
from tasks.accounting.dp_sgd import TrainingNoise
from tasks.core.refs import Written
from tasks.core.slots import TRAINING
from tasks.steps.dp_sgd import Tuned, TuneSpec, control_card
from tasks.students.recipe import Adapter, Recipe
from tasks.text.prompts import TaskCard


class DpSgdRun(Run):
    """The jobs of one run of DP-SGD + generation."""

    config: DpSgdGenConfig
    guides_all = True

    def tune_spec(self) -> TuneSpec:
        """Describe the training."""
        method, name, noise = self.config.method, self.tools.called, self.prepared.noise
        assert isinstance(noise, TrainingNoise)
        recipe = Recipe(
            training=method.tuning,
            noise_multiplier=noise.noise_multiplier,
            learning_rate=method.learning_rate,
            clipping=method.clipping,
            rows_at_once=method.rows_at_once,
            checkpoint_every=method.checkpoint_every,
        )
        return TuneSpec(
            plm=self.plms[0],
            dataset=name.dataset,
            fingerprint=name.fingerprint,
            noise=noise,
            recipe=recipe,
            adapter=Adapter(method.rank, method.alpha),
            tokens=method.tokens,
            card=self.prepared.card,
            seed=self.config.execution.seed,
            respend=self.config.privacy.respends,
        )

    def writing(self, tuned: Tuned) -> RunTools:
        """Return tools whose PLM is the tuned model; it is asked with the control text, whatever its makers trained."""
        plm = self.config.plms[0]
        folder = str(self.tools.artifacts.read_folder(tuned.model).resolve())
        options = {**plm.options, "chat": "no", "template": ""}
        longest = min(plm.max_tokens or self.config.method.tokens, self.config.method.tokens)
        return self.tools.with_models(
            [plm.model_copy(update={"model": folder, "options": options, "max_tokens": longest})]
        )

    @property
    def writing_card(self) -> TaskCard:
        """The control texts stand for all instructions."""
        return control_card(self.prepared.card)

    def require_texts(self, iteration: int, written: Sequence[Written]) -> None:
        """Stop when the model is down, or wrote nothing that can be used: then there is nothing to measure."""
        try:
            super().require_texts(iteration, written)
        except TooFewTextsError:
            raise FinalError(
                f"The trained model '{self.plms[0]}' wrote no usable text: the noise is louder than the rows. "
                "Take a model that writes well before it is trained, more rows, fewer weights (method.rank), or a "
                "larger epsilon. The training is paid for; its weights stay."
            ) from None

    def slots(self, releases: Sequence[ArtifactRef]) -> set[str]:  # noqa: ARG002  (one training, however often told)
        """The training."""
        return {TRAINING}

    def remarks(self, releases: Sequence[ArtifactRef]) -> tuple[str, ...]:
        """Steps that a crash lost: they are paid for and not in the weights."""
        lost = sum(int(self.tools.artifacts.info(release).get("lost", 0)) for release in releases)
        said = (
            f"{lost} of {self.config.method.steps} steps of the training were lost with a process that died: they are "
        )
        return (said + "paid for and not made up for",) if lost else ()
