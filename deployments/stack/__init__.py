"""All services on one machine without containers (make up, down and status)."""
