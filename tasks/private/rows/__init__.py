"""Private records: reading, identity, marks of persons, survey, search for copies, and errors for their owner alone."""
