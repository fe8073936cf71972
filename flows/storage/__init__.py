"""The state folder over time: inventory, retention, ledger backup."""
