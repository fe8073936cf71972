"""The privacy ledger: charges, caps, groups and their hash chain."""
