"""Reports, plots and ledger pages."""
