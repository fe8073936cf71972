"""Steps of a federated round."""
