"""Export of a dataset: gate, bundle, dataset card and ledger page."""
