"""Steps that train, measure and compare students."""
