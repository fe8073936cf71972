"""Artifacts on disk and in shared storage: atomic writes, manifests, hashes."""
