"""A party's side of a masked round."""
