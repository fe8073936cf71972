"""Small rows for tests of students: sentences with a telling word, and clouds of vectors."""

import numpy as np

from tasks.students.spec import TrainingRows

CLASSES = ["fruit", "metal", "river"]
WORDS = {
    "fruit": ["apple", "pear", "plum", "fig"],
    "metal": ["iron", "zinc", "lead", "gold"],
    "river": ["nile", "rhine", "volga", "ebro"],
}
FILLER = ["the", "a", "of", "and", "big", "small", "is", "was"]


def sentences(rows, seed, classes=CLASSES):
    """Sentences of filler with one word that identifies the class; lengths differ."""
    generator = np.random.default_rng(seed)
    labels = [classes[row % len(classes)] for row in range(rows)]
    texts = []
    for label in labels:
        words = list(generator.choice(FILLER, generator.integers(2, 12)))
        words.insert(generator.integers(0, len(words)), str(generator.choice(WORDS[label])))
        texts.append(" ".join(words))
    return texts, labels


def clouds(rows, seed):
    """Three Gaussian clouds in 12 dimensions in place of embeddings."""
    centres = np.random.default_rng(99).normal(size=(3, 12)) * 2
    generator = np.random.default_rng(seed)
    numbers = np.arange(rows) % 3
    vectors = (centres[numbers] + generator.normal(size=(rows, 12))).astype(np.float32)
    return vectors, [CLASSES[number] for number in numbers]


def vector_rows(rows=120, seed=0, **more):
    vectors, labels = clouds(rows, seed)
    return TrainingRows([""] * rows, labels, CLASSES, vectors, **more)
