"""The release of votes: each private record votes for the nearest and the furthest synthetic texts."""
