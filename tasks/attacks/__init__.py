"""The common part of attacks on releases, and the bounds that they prove; names no kind of release."""
