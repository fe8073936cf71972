"""Language models of vendors, called over HTTP."""
