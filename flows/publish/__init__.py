"""Export of a data set: gate, bundle, card, ledger page."""
