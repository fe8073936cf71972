"""Steps of a federated vote."""
