"""Steps: artifacts in, artifact out, without Prefect."""
