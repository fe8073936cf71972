"""The promises of the budget book, the same on every database: classes of tests that need a fixture `url`, `book`."""
