"""The only package that reads private records; its README.md states the privacy guarantee."""
