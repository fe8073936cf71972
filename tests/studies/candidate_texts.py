"""`python -m tests.studies.candidate_texts --folder OUT`: some texts of each candidate for better words.

The candidates of docs/results/guidance_auto.md write for Banking with the bundled SmolLM2; one draw of 1,000 records
and one noise at a total epsilon of 4. Each text is printed with the class that a release gives it, and its
probability. The variable WASP_DATA names the folder of the data.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import peft
import torch
from scipy.special import softmax
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfVectorizer

from connectors.embedders.registry import open_embedder
from connectors.models.transformers.loading import Loaded
from connectors.models.transformers.model import HfModel
from flows.config.task_files import load_task
from tasks.accounting.composition import gaussian_epsilon, mu_of
from tasks.guidance.density import choose_examples, means_of, relate_to_density
from tasks.guidance.matching import Density
from tasks.guidance.topics import frequent_words, nearest_words
from tasks.writing.generate import (
    WriteJob,
    WritingRequest,
    first_prompts,
    generate,
    terms_by_class,
)
from tasks.writing.prompts import Label, TaskCard
from tests.studies.neutral_labels import (
    Floats,
    Rows,
    labelled,
    neutral,
    numbered,
    released,
    stored,
    vectors_of_words,
    writer,
    written,
)
from tests.studies.public_corpus import DESK, corpus_of

RECORDS = 1000
EPSILON = 4.0
DELTA = 1e-5
POOL = 600
SHOWN = ("activate_my_card", "cancel_transfer")
"""Classes whose texts are printed."""
EACH = 5
LAYER = 18
TOKENS = 100
"""Tokens that are bought for a class."""
SCORE_BOUND = 0.0611
"""Largest change of a token's score by one record: half of rho at epsilon 4 for `TOKENS` tokens."""
TOPICS = 12
LENGTHS = {"a few words": 8, "one short sentence": 12, "one sentence": 17, "two sentences": 1000}
"""Lengths of a text as prompts request them, and their largest number of words."""

Texts = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Study:
    """The task, zero-shot texts, private records, and the model that writes."""

    card: TaskCard
    pool: Rows
    private: Rows
    model: HfModel
    folder: Path

    def job(self, **options: Any) -> WriteJob:
        """Return what the prompts of a candidate have in common."""
        defaults: dict[str, Any] = {
            "plm_index": 0,
            "iteration": 1,
            "card": self.card,
            "plm": "smollm2",
        }
        return WriteJob(**(defaults | {"listed": True} | options))

    def write(self, request: WritingRequest) -> Texts:
        """Return the texts of a request by class."""
        rows = generate(self.model, request).rows
        return {label: rows["text"][rows["label"] == label].tolist() for label in SHOWN}

    @property
    def loaded(self) -> Loaded:
        """The model and its tokenizer."""
        return self.model._open()


def half(share: float = 0.5) -> float:
    """Return epsilon of a release that takes a share of the total squared mu."""
    return gaussian_epsilon(mu_of(EPSILON, DELTA) * math.sqrt(share), DELTA)


def request_of(study: Study, job: WriteJob | None = None, **options: Any) -> WritingRequest:
    """Return a request for the texts of the printed classes."""
    return WritingRequest(job or study.job(), dict.fromkeys(SHOWN, EACH), **options)


def zero_shot(study: Study) -> Texts:
    """Return texts as a first iteration writes them."""
    return study.write(request_of(study))


def four_texts(study: Study) -> Texts:
    """Return zero-shot texts of which four share the topic of their prompt."""
    return study.write(request_of(study, study.job(texts_per_prompt=4)))


def by_examples(study: Study) -> Texts:
    """Return texts whose prompts show eight texts that the release chose."""
    density = released(study.private, study.card.label_names, EPSILON)
    names = np.array(study.card.label_names)[study.pool.classes]
    frame = pd.DataFrame(
        {
            "sample_id": range(POOL),
            "text": study.pool.texts,
            "label": names,
            "plm": "smollm2",
            "iteration": 0,
        }
    )
    chosen = choose_examples(relate_to_density(frame, study.pool.vectors, density), 8)
    good = {
        label: tuple(rows["text"])
        for label, rows in chosen[chosen["kind"] == "good"].groupby("label")
    }
    job = study.job(examples_per_prompt=8)
    return study.write(request_of(study, job, good=good))


def without_names(study: Study) -> Texts:
    """Return texts of numbered classes without descriptions."""
    hidden = neutral(study.card)
    job = study.job(card=hidden)
    names = dict(zip(study.card.label_names, hidden.label_names, strict=True))
    request = WritingRequest(job, {names[label]: EACH for label in SHOWN})
    rows = generate(study.model, request).rows
    return {label: rows["text"][rows["label"] == names[label]].tolist() for label in SHOWN}


def by_topics(study: Study) -> Texts:
    """Return texts of numbered classes whose prompts have words near the release."""
    hidden = neutral(study.card)
    density = released(study.private, hidden.label_names, EPSILON)
    table = nearest_words(frequent_words("en"), vectors_of_words(), means_of(density))
    names = dict(zip(study.card.label_names, hidden.label_names, strict=True))
    topics = terms_by_class(table)
    for label in SHOWN:
        sys.stdout.write(f"topics of {label}: {', '.join(topics[names[label]])}\n")
    job = study.job(card=hidden, texts_per_prompt=4)
    request = WritingRequest(job, {names[label]: EACH for label in SHOWN}, topics=topics)
    rows = generate(study.model, request).rows
    return {label: rows["text"][rows["label"] == names[label]].tolist() for label in SHOWN}


def by_public_texts(study: Study) -> Texts:
    """Return shipped texts of the demo, of those that are nearest to the released mean of a class."""
    density = released(study.private, study.card.label_names, EPSILON)
    public = corpus_of(DESK, study.folder).take(np.random.default_rng(0).permutation(6000)[:1200])
    nearest = means_of(density).nearest(public.vectors)
    return {label: public.texts[nearest == label][:EACH].tolist() for label in SHOWN}


def bought(study: Study) -> Texts:
    """Return texts of tokens that the exponential mechanism draws from averaged, clipped logits.

    Each record of a class continues its own prompt, which shows the record; the records' logits are compared with
    those of the prompt that shows none, clipped, and averaged over 100, which is public.
    """
    loaded = study.loaded
    random = np.random.default_rng()
    texts: dict[str, list[str]] = {}
    for label in SHOWN:
        heading = first_prompts(request_of(study, study.job(iteration=0)))
        start = next(prompt.text for prompt in heading if prompt.label == label)
        start = start.rsplit("\n", 1)[0]
        own = study.private.texts[study.private.classes == study.card.label_names.index(label)]
        prompts = [f"{start}\n1. {text}\n2." for text in own] + [f"{start}\n1."]
        ids = [loaded.tokenizer(prompt)["input_ids"] for prompt in prompts]
        texts[label] = []
        drawn: list[int] = []
        for left in range(TOKENS, 0, -1):
            if not drawn:
                longest = max(map(len, ids))
                tokens = torch.tensor([[loaded.pad] * (longest - len(row)) + row for row in ids])
                mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in ids])
                cache = None
            with torch.inference_mode():
                output = loaded.model(
                    input_ids=tokens,
                    attention_mask=mask,
                    position_ids=(mask.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :],
                    past_key_values=cache,
                    use_cache=True,
                    logits_to_keep=1,
                )
            cache = output.past_key_values
            logits = output.logits[:, -1].double().log_softmax(-1).numpy()
            public = logits[-1]
            # One record moves a score by at most SCORE_BOUND: the divisor is public.
            bound = SCORE_BOUND * 100
            private = np.clip(logits[:-1] - public, -bound, bound).sum(0) / 100
            token = int(random.choice(len(public), p=softmax(public + private)))
            text = loaded.tokenizer.decode([*drawn, token], skip_special_tokens=True)
            drawn.append(token)
            tokens = torch.full((len(ids), 1), token)
            mask = torch.cat([mask, mask.new_ones(len(ids), 1)], 1)
            if "\n" in text or token in loaded.eos or left == 1:
                texts[label].append(text.split("\n")[0].strip())
                drawn = []
        texts[label] = [text for text in texts[label] if text]
    return texts


def states_of(loaded: Loaded, texts: Iterable[str]) -> Floats:
    """Return the mean hidden state of each text (n, d) behind layer `LAYER`."""
    rows = []
    with torch.inference_mode():
        for text in texts:
            ids = loaded.tokenizer(text, return_tensors="pt")["input_ids"]
            states = loaded.model(ids, output_hidden_states=True).hidden_states[LAYER + 1]
            # The first token has a state of an own magnitude, whatever it is.
            rows.append(states[0, 1:].mean(0).double().numpy())
    return np.array(rows)


@contextmanager
def steered(loaded: Loaded, vector: Floats) -> Iterator[None]:
    """Add a vector to the output of layer `LAYER` of the model."""
    added = torch.tensor(vector, dtype=loaded.model.dtype)

    def add(_: object, __: object, output: Any) -> Any:
        if isinstance(output, tuple):
            return (output[0] + added, *output[1:])
        return output + added

    handle = loaded.model.model.layers[LAYER].register_forward_hook(add)
    try:
        yield
    finally:
        handle.remove()


def by_steering(study: Study) -> Texts:
    """Return zero-shot texts under the released difference of mean hidden states of their class."""
    public = states_of(study.loaded, study.pool.texts[::3])
    classes = study.pool.classes[::3]
    states = states_of(study.loaded, study.private.texts) - public.mean(0)
    length = np.median(np.linalg.norm(public - public.mean(0), axis=1))
    private = Rows(study.private.texts, study.private.classes, states.astype(np.float32))
    density = released(private, study.card.label_names, half())
    means = means_of(density).means
    own = (public - public.mean(0)) / np.linalg.norm(public - public.mean(0), axis=1)[:, None]
    texts: dict[str, list[str]] = {}
    for label in SHOWN:
        number = study.card.label_names.index(label)
        clean = states[private.classes == number]
        clean = (clean / np.linalg.norm(clean, axis=1)[:, None]).mean(0)
        vector = (means[number] - own[classes == number].mean(0)) * length
        exact = (clean - own[classes == number].mean(0)) * length
        cosine = vector @ exact / np.linalg.norm(vector) / np.linalg.norm(exact)
        sys.stdout.write(f"steering {label}: cosine to the vector without noise {cosine:.2f}\n")
        with steered(study.loaded, vector):
            request = WritingRequest(study.job(), {label: EACH})
            texts[label] = generate(study.model, request).rows["text"].tolist()
    return texts


def by_attributes(study: Study) -> Texts:
    """Return texts whose prompts draw a cluster and a length from a noisy table of the records."""
    embedder = open_embedder("sentence_transformers")
    terms = TfidfVectorizer(stop_words="english")
    matrix = terms.fit_transform(study.pool.texts)
    known = np.array(terms.get_feature_names_out())
    names = np.array(study.card.label_names)
    table = np.zeros((len(study.private.texts), TOPICS * len(LENGTHS)), dtype=np.float32)
    limits = list(LENGTHS.values())
    clusters: dict[str, list[str]] = {}
    for number, label in enumerate(names):
        own = np.flatnonzero(study.pool.classes == number)
        kmeans = KMeans(TOPICS, random_state=0, n_init=10).fit(study.pool.vectors[own])
        clusters[label] = []
        for cluster in range(TOPICS):
            weights = np.asarray(matrix[own[kmeans.labels_ == cluster]].mean(0)).ravel()
            clusters[label].append(", ".join(known[np.argsort(-weights)[:3]]))
        private = np.flatnonzero(study.private.classes == number)
        nearest = kmeans.predict(study.private.vectors[private])
        for row, cluster in zip(private, nearest, strict=True):
            words = len(study.private.texts[row].split())
            length = next(index for index, most in enumerate(limits) if words <= most)
            table[row, cluster * len(LENGTHS) + length] = 1
    rows = Rows(study.private.texts, study.private.classes, table)
    density = released(rows, study.card.label_names, half())
    means = means_of(density).means
    random = np.random.default_rng(0)
    texts: dict[str, list[str]] = {}
    for label in SHOWN:
        number = study.card.label_names.index(label)
        weights = np.maximum(means[number], 0)
        texts[label] = []
        for cell in random.choice(len(weights), EACH, p=weights / weights.sum()):
            topic = clusters[label][cell // len(LENGTHS)]
            length = list(LENGTHS)[cell % len(LENGTHS)]
            described = study.card.label(label).description
            named = Label(label, f"{described}; {topic}; {length}")
            card = TaskCard(
                study.card.name,
                study.card.item,
                (named,),
                max_tokens=64,
                list_heading=study.card.list_heading,
            )
            job = study.job(card=card, seed=len(texts[label]))
            text = generate(study.model, WritingRequest(job, {label: 1})).rows["text"].item()
            texts[label].append(f"{text} [{topic}; {length}]")
    del embedder
    return texts


def by_reward(study: Study) -> Texts:
    """Return texts of the model after direct preference optimisation on pairs that the release ranks.

    250 pairs of texts of equal class, nearer and farther from the released mean; LoRA of rank 8, beta 0.1.
    """
    density = released(study.private, study.card.label_names, EPSILON)
    means = means_of(density).means
    random = np.random.default_rng(0)
    points = study.pool.vectors / np.linalg.norm(study.pool.vectors, axis=1)[:, None]
    loaded = study.loaded
    prompts = {
        prompt.label: prompt.text
        for prompt in first_prompts(
            WritingRequest(study.job(iteration=0), dict.fromkeys(study.card.label_names, 1))
        )
    }
    pairs = []
    for _ in range(250):
        number = int(random.integers(len(study.card.label_names)))
        two = random.choice(np.flatnonzero(study.pool.classes == number), 2, replace=False)
        far, near = sorted(two, key=lambda row: points[row] @ means[number])
        prompt = prompts[study.card.label_names[number]]
        pairs.append((prompt, study.pool.texts[near], study.pool.texts[far]))

    def score(prompt: str, text: str) -> torch.Tensor:
        start = loaded.tokenizer(prompt)["input_ids"]
        ids = start + loaded.tokenizer(f" {text}\n")["input_ids"]
        logits = loaded.model(torch.tensor([ids])).logits[0, len(start) - 1 : -1]
        targets = torch.tensor(ids[len(start) :])
        return logits.log_softmax(-1).gather(1, targets[:, None]).sum()

    with torch.no_grad():
        base = [(score(prompt, near), score(prompt, far)) for prompt, near, far in pairs]
    modules = ["q_proj", "v_proj"]
    lora = peft.LoraConfig(r=8, lora_alpha=16, target_modules=modules, task_type="CAUSAL_LM")
    tuned = peft.get_peft_model(loaded.model, lora)
    weights = [weight for weight in tuned.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=1e-4)
    won = []
    for _ in range(2):
        for step, index in enumerate(random.permutation(len(pairs))):
            prompt, near, far = pairs[index]
            margin = score(prompt, near) - base[index][0] - score(prompt, far) + base[index][1]
            loss = -torch.nn.functional.logsigmoid(0.1 * margin) / 8
            loss.backward()
            won.append(float(margin) > 0)
            if step % 8 == 7:
                optimizer.step()
                optimizer.zero_grad()
    sys.stdout.write(f"pairs ranked as the release does, second epoch: {np.mean(won[250:]):.2f}\n")
    return study.write(request_of(study))


CANDIDATES: Mapping[str, tuple[Callable[[Study], Texts], float]] = {
    "zero-shot": (zero_shot, 1),
    "four texts of a prompt": (four_texts, 1),
    "examples by the release": (by_examples, 1),
    "names without meaning": (without_names, 1),
    "names without meaning, topics": (by_topics, 1),
    "public texts": (by_public_texts, 1),
    "bought examples": (bought, 0.5),
    "steering": (by_steering, 0.5),
    "attributes": (by_attributes, 0.5),
    "reward": (by_reward, 1),
}
"""The candidates, and the share of squared mu that the release of their labels has; `reward` changes the model."""


def printed(study: Study, name: str, texts: Texts, share: float) -> None:
    """Print texts with the classes that the release gives them."""
    density: Density = released(study.private, study.card.label_names, half(share))
    flat = [text.split(" [")[0] for label in SHOWN for text in texts[label]]
    numbers = [study.card.label_names.index(label) for label in SHOWN for _ in texts[label]]
    vectors = open_embedder("sentence_transformers").embed(flat)
    # As in a run, the head that labels learns from these texts too.
    rows = Rows(
        np.concatenate([np.array(flat, dtype=object), study.pool.texts]),
        np.concatenate([np.array(numbers), study.pool.classes]),
        np.concatenate([vectors, study.pool.vectors]),
    )
    soft = labelled(rows, density)
    sys.stdout.write(f"\n## {name}\n")
    line = 0
    for label in SHOWN:
        sys.stdout.write(f"{label}\n")
        for text in texts[label]:
            best = int(soft[line].argmax())
            label_of_text = f"{study.card.label_names[best]} {soft[line, best]:.2f}"
            sys.stdout.write(f"- {text}  | {label_of_text}\n")
            line += 1


def main() -> None:
    """Write and print the texts of all candidates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="texts and vectors")
    parser.add_argument("--only", nargs="+", choices=CANDIDATES, default=list(CANDIDATES))
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    card = load_task("banking10")
    pool = numbered(
        written(card, chosen.folder, POOL), card.label_names, chosen.folder / "pool.npy"
    )
    train = stored("banking10", "train", card.label_names, chosen.folder)
    draws = np.random.default_rng([0, RECORDS])
    private = train.take(draws.choice(len(train.texts), RECORDS, replace=False))
    study = Study(card, pool, private, writer(chosen.folder), chosen.folder)
    for name, (write, share) in CANDIDATES.items():
        sys.stdout.flush()
        if name in chosen.only:
            printed(study, name, write(study), share)


if __name__ == "__main__":
    main()
