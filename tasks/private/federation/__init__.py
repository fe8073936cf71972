"""A party's part of a masked round."""
