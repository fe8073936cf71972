"""The only folder where private rows are open. README.md here is the promise."""
