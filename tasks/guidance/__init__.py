"""Turn released, noisy numbers into examples, weights, survivors and soft labels: post-processing without cost."""
