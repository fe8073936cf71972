"""Maintenance of the state folder: retention, release checks, ledger backup."""
