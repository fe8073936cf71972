"""The release of a density: one noisy sum of features per class, which guides all iterations of a run."""
