"""A DP-SGD + generation run: the jobs of its steps."""

from collections.abc import Sequence
from dataclasses import replace

from connectors.interfaces.errors import FinalError, TooFewTextsError
from flows.engine.run import Run
from flows.engine.tools import RunTools
from flows.methods.dp_sgd_gen.config import DpSgdGenConfig
from flows.methods.tuning import paid_training
from tasks.private.training.recipe import TuneSpec
from tasks.private.training.step import Tuned, control_card, controls_of
from tasks.steps.values import TextTable
from tasks.writing.generate import WriteJob


class DpSgdRun(Run):
    """A DP-SGD + generation run and the jobs of its steps."""

    config: DpSgdGenConfig
    guides_all = True

    def tune_spec(self) -> TuneSpec:
        """Return the specification of the training."""
        method = self.config.method
        return TuneSpec(
            paid=paid_training(self, method),
            plm=self.plms[0],
            rank=method.rank,
            tokens=method.tokens,
            controls=controls_of(self.prepared.card),
            seed=self.config.execution.seed,
        )

    def writing(self, tuned: Tuned) -> RunTools:
        """Return tools with the tuned model as PLM, prompted with the control text only (no chat template)."""
        plm = self.config.plms[0]
        folder = str(self.tools.artifacts.read_folder(tuned.model).resolve())
        # The training texts had a control text and no chat template.
        options = {**plm.options, "chat": "no", "template": ""}
        # The model never saw a longer text.
        max_tokens = min(plm.max_tokens or self.config.method.tokens, self.config.method.tokens)
        tuned_plm = plm.model_copy(
            update={"model": folder, "options": options, "max_tokens": max_tokens}
        )
        return self.tools.named(self.tools.run_name, [tuned_plm])

    @property
    def base_job(self) -> WriteJob:
        """Prompts are control texts instead of instructions."""
        return replace(super().base_job, card=control_card(self.prepared.card))

    def require_texts(self, iteration: int, written: Sequence[TextTable]) -> None:
        """Raise FinalError when the model is down or wrote no usable text."""
        try:
            super().require_texts(iteration, written)
        except TooFewTextsError:
            raise FinalError(
                f"The trained model '{self.plms[0]}' wrote no usable text: the noise exceeds the signal. Use "
                "a better pretrained model, more rows, fewer weights (method.rank), or a larger epsilon. The "
                "training is charged; its weights are stored."
            ) from None
