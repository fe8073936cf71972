"""The comparison flow."""
