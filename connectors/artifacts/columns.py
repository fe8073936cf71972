"""Meaning and unit of the columns of the tables of runs; each Parquet file has them in its schema."""

from typing import Final

DESCRIPTIONS: Final = {
    # texts
    "sample_id": "number of the text in its run",
    "text": "text written by a language model; in prompts.parquet, the prompt",
    "label": "requested class",
    "label_best": "most likely class of the text, by label_soft",
    "label_soft": "probability of each class for this text, in the order of the labels",
    "attribute": "requested variation, empty if none",
    "plm": "language model that wrote the text",
    "source": "source of a public text, empty if a language model wrote it",
    "iteration": "iteration of the run that created the text",
    "prompt_key": "digest of prompt and settings, which names the stored completion",
    "tokens_in": "tokens of the prompt",
    "tokens_out": "tokens of the completion",
    "finish_reason": "why the model stopped: stop, length or another word of its server",
    "attempt": "round of prompts, from 0; later ones replace texts that could not be used",
    "reason": "why the text could not be used",
    "parent_id": "sample_id of the text that was varied",
    # releases: integers with noise, in steps of the release (info.steps in the manifest)
    "near": "noisy votes of private records that have this text among their nearest ones, in steps",
    "far": "noisy votes of private records that have this text among their farthest ones, in steps",
    "row": "row of the released sums: a class, a cell or a term",
    "position": "position in the row: a dimension or a class",
    "sum": "noisy sum over private records, in steps",
    # training with DP-SGD
    "clip": "largest norm of a record's gradient",
    "noise_multiplier": "standard deviation of the noise in units of the clipping norm",
    "sample_rate": "probability that a record takes part in a step",
    "steps_planned": "steps of the plan",
    "steps_begun": "steps that were charged",
    "steps_in_weights": "steps whose update is in the weights",
    "epsilon_of_begun": "epsilon of the steps that were charged",
    "delta": "delta of the guarantee",
    # choices made from releases
    "share": "share of the model's texts in the near votes, 0 to 1",
    "weight": "weight of the model, adds up to 1; of a text, its weight in the training",
    "kind": "good or bad example; in a pool, easy or ambiguous",
    "rank": "rank in its class, from 1",
    "score": "votes, similarity to the release or probability by which the text was ranked",
    "times": "number of draws of this text",
    "kept": "true if the text stays",
    # vocabularies
    "number": "number of the term in the public vocabulary",
    "term": "term of the public vocabulary",
    "count": "noisy number of private records with the term",
    "sequence_id": "number of the sequence",
    "phrases": "terms of the sequence as a JSON list",
    # FuseGen
    "probability": "probability of the text's label by one student",
    "part": "split of a model's own texts: train or validation; empty for others",
}
