"""How flows are started: configurations and deployments."""
