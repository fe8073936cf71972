"""Preview of the models' texts with zero-shot prompts: uses no private data, epsilon 0."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from connectors.interfaces import cancellation
from connectors.interfaces.errors import FinalError, TemporaryError
from connectors.interfaces.json_values import Json
from connectors.interfaces.models import Completion, Usage
from connectors.interfaces.prompts import Prompt, Seeded
from connectors.interfaces.traffic import Traffic, state_of, traffic_of
from flows.catalog import find_method
from flows.config.base import AnyConfig
from flows.config.method import texts_per_prompt
from flows.config.task_files import load_task
from flows.engine.checks import require_models
from flows.engine.plan import MIN_COMPLETIONS
from flows.engine.tools import RunTools
from tasks.metrics.answer_counts import AnswerCounts, counts_of, describe_findings
from tasks.writing.cleaning import Cleaned
from tasks.writing.endings import ends_in_the_middle
from tasks.writing.first_answers import Tally, judge
from tasks.writing.forms import limit_of
from tasks.writing.generate import WriteJob, WritingRequest, first_prompts
from tasks.writing.keyphrase_prompts import count_used
from tasks.writing.prompts import Call, TaskCard, Turn
from tasks.writing.variation import Manner, Parent, generation_prompt


def preview_rows(config: AnyConfig, home: Path, rows: int) -> Json:
    """Return `rows` texts per model and class with the result of cleaning; completions are cached for the run."""
    card = load_task(config.task)
    require_models(config)
    tools = RunTools(config, home)
    previewed: list[Json] = []
    answers: dict[str, AnswerCounts] = {}
    usage = Usage()
    phrases = 0
    phrases_used = 0
    for plm in config.writers:
        prompts = sample_prompts(tools, card, plm, rows)
        model = tools.model(plm)
        note = partial(state_of, model)
        with cancellation.work(), tools.progress(f"preview {plm}", len(prompts), note) as advance:
            completions = model.complete(prompts, lambda *_: advance(1))
        tally = Tally()
        for prompt, completion in zip(prompts, completions, strict=True):
            cleaned = judge(completion, prompt, card)
            tally.add(cleaned, completion)
            usage += completion.usage
            row = {
                "plm": plm,
                "label": prompt.label,
                "text": cleaned.text,
                "reason": cleaned.reason,
            }
            previewed.append(row | {"remarks": _remarks(cleaned, completion)})
            if isinstance(prompt, Seeded) and cleaned.reason is None:
                phrases += len(set(prompt.phrases))
                phrases_used += count_used(cleaned.text, prompt.phrases)
        answers[plm] = counts_of(tally, len(prompts), sum(traffic_of(model).values(), Traffic()))
    cost = {"dollars": usage.dollars, "dollars_estimated": usage.estimated_dollars}
    counts = {
        "calls": usage.calls,
        "tokens_out": usage.tokens_out,
        "findings": describe_findings(answers),
        "limits": _limits(previewed, card.form),
        "phrases": phrases,
        "phrases_used": phrases_used,
    }
    return {"rows": previewed, **counts, **cost, "epsilon_spent": 0}


def _limits(previewed: Sequence[Json], form: str) -> list[str]:
    """Return the limits of the task's form that left texts out, with what changes them."""
    reasons = dict.fromkeys(row["reason"] for row in previewed if row["reason"])
    return [limit for reason in reasons if (limit := limit_of(reason, form))]


def _remarks(cleaned: Cleaned, completion: Completion) -> list[str]:
    """Return how a usable text differs from one whole text."""
    if cleaned.reason is not None:
        return []
    remarks = {
        "ends in the middle": ends_in_the_middle(cleaned.text, completion.finish_reason),
        "first of several texts": cleaned.is_first_of_several,
    }
    return [remark for remark, applies in remarks.items() if applies]


def is_up(tools: RunTools, card: TaskCard, plm: str, iteration: int) -> bool:
    """Return whether a PLM completes a prompt for one text; the completion is cached for the run."""
    try:
        # The first prompt of the run: its completion is cached, so the test costs nothing if the model answers.
        tools.model(plm).complete(sample_prompts(tools, card, plm, 1, iteration)[:1])
    except (FinalError, TemporaryError):
        return False
    return True


def measure_speed(config: AnyConfig, home: Path, plm: str) -> None:
    """Let a model write the first texts of the run, as many as an estimate of its speed needs; they are cached."""
    card = load_task(config.task)
    tools = RunTools(config, home)
    model = tools.model(plm)
    prompts = sample_prompts(tools, card, plm, MIN_COMPLETIONS)[:MIN_COMPLETIONS]
    note = partial(state_of, model)
    with cancellation.work(), tools.progress(f"measure {plm}", len(prompts), note) as advance:
        model.complete(prompts, lambda *_: advance(1))


def sample_prompts(
    tools: RunTools, card: TaskCard, plm: str, rows: int, iteration: int = 0
) -> list[Prompt]:
    """Return zero-shot prompts for `rows` texts of each class, in turn; a run starts with the same prompts.

    A model that only varies texts gets `rows` texts with gaps. Prompts of DP-KPS contain random terms of its public
    vocabulary.
    """
    seed = tools.config.execution.seed
    if plm not in tools.config.writers:
        turn = Turn(plm_index=0, iteration=iteration, seed=seed)
        return [
            generation_prompt(
                card,
                Call(turn, card.label_names[0], position),
                Manner(variation="blanks"),
                "",
                Parent(position, f"This is a {card.item}."),
            )
            for position in range(rows)
        ]
    counts = dict.fromkeys(card.label_names, rows)
    number = tools.config.writers.index(plm)
    phrases = find_method(tools.config.flow_name).preview_phrases
    seeding = None
    if phrases is not None:
        seeding = phrases(tools, card)
    listed = tools.config.plms[number].is_listed
    job = WriteJob(
        card,
        plm,
        plm_index=number,
        iteration=iteration,
        seed=seed,
        listed=listed,
        texts_per_prompt=texts_per_prompt(tools.config.method),
    )
    return first_prompts(WritingRequest(job, counts, seeding=seeding))
