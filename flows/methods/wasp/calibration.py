"""The noise of a WASP run: its configuration decides by it whether `auto` opens the rows, its releases draw it."""

from flows.config.base import RunConfig
from flows.methods.voting import promise_of, vote_noise
from tasks.accounting.integer_noise import SumNoise, calibrate_sums
from tasks.accounting.promise import Promise, require
from tasks.private.density.promise import DensityPrivacy
from tasks.private.votes.promise import VoteNoise


def calibrated(config: RunConfig) -> SumNoise[DensityPrivacy] | VoteNoise:
    """Return the noise of the release of a run that opens its rows, which `auto` may decide against."""
    promise = promise_of(config)
    if not config.method.releases_density:
        return vote_noise(config, promise)
    calibration = config.privacy.calibration
    require(
        calibration == "tight", "calibration", "tight: no paper releases this density", calibration
    )
    return density_noise(promise)


def density_noise(promise: Promise) -> SumNoise[DensityPrivacy]:
    """Return the least noise of a density that keeps a promise; ConfigError where persons' rows are not averaged."""
    averaged = promise.protects == "record" or promise.aggregation == "mean"
    require(
        averaged, "joined_by", "mean: a person adds the average of their rows", promise.aggregation
    )
    # A person with one vector of length at most 1, the average, moves the sum as far as a record does.
    unit = (promise.adjacency, promise.protects, promise.rows_per_person)
    return calibrate_sums(DensityPrivacy(promise.epsilon, promise.delta, *unit))
