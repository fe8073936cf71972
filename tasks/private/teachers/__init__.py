"""The releases of teachers: noisy label counts, and noisy answers of classifiers of disjoint shards."""
