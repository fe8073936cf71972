"""The whole stack on one machine without containers: `make up`, `make down`, `make status`."""
