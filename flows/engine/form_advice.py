"""Warnings about language models that do not fit the form of a task, from public settings."""

from collections.abc import Sequence

from flows.config.models import Plm
from tasks.writing.forms import TOKENS_PER_WORD, form_of
from tasks.writing.prompts import TaskCard


def form_warnings(card: TaskCard, models: Sequence[Plm]) -> list[str]:
    """Return what keeps models from writing texts of the form and length of a task; none for prose of any length."""
    needed = _needed_tokens(card)
    warnings = [
        f"model '{plm.name}': max_tokens {plm.max_tokens} is below the {needed} that texts of this form and length may "
        "need, so they may end in the middle. Raise or remove it"
        for plm in models
        if plm.max_tokens is not None and plm.max_tokens < needed
    ]
    words = _declared_words(card)
    if TOKENS_PER_WORD * words > card.max_tokens:
        fitting = card.max_tokens // TOKENS_PER_WORD
        warnings.append(
            f"words: {words} words do not fit into max_tokens {card.max_tokens} of the task, so texts may end in the "
            f"middle. Write words: {fitting} into the task file, or a larger max_tokens if the models write as much"
        )
    if form_of(card.form).keeps_lines:
        warnings += [
            f"model '{plm.name}': its prompts are beginnings of lists, so its texts have one line, and the form of the "
            f"task is {card.form}. Use a model that follows instructions"
            for plm in models
            if plm.is_listed
        ]
    return warnings


def _declared_words(card: TaskCard) -> int:
    """Return the declared length of a text in words; 0 without a declaration."""
    if not card.length:
        return 0
    return int(card.length.split()[0])


def _needed_tokens(card: TaskCard) -> int:
    """Return the tokens that a text may need; 0 where neither form nor length says so."""
    if words := _declared_words(card):
        return min(card.max_tokens, TOKENS_PER_WORD * words)
    # Of several lines the limit is what cuts: other forms are shorter than any usual limit.
    if form_of(card.form).keeps_lines:
        return card.max_tokens
    return 0
