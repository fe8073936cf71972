"""A run that failed says why, and Retry goes on where it stopped."""

from collections.abc import Iterator

import pytest

from tests.support.browser.story import DEPLOYMENT, Story
from tests.support.runs.pipeline import SMALL
from tests.support.servers.stack import RunningStack
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import failure

ROUNDS, SAMPLES = 3, 36
ANSWERED = SAMPLES // ROUNDS + 4
REUSED = "//main//*[@data-slot='badge' and normalize-space(.)='Reused']"


@pytest.fixture(scope="module")
def vendor() -> Iterator[VendorServer]:
    """A language model that answers some prompts and then refuses its key, until somebody changes the plan."""
    refusal = failure(401, "the key was revoked", code="invalid_api_key")
    with VendorServer(plan=lambda request: refusal if server.count > ANSWERED else None) as server:
        yield server


@pytest.fixture(scope="module")
def failed(story: Story, vendor: VendorServer) -> str:
    """A run whose only language model goes down in the second iteration; its id."""
    config = SMALL | {
        "plms": [vendor.plm(key="none", options={"tries": 2})],
        "method": SMALL["method"] | {"iterations": ROUNDS, "samples": SAMPLES},
    }
    flow_run = story.site.start(DEPLOYMENT, config)
    story.open_run(flow_run)
    story.see_state("Failed")
    return flow_run


def releases(site: RunningStack, flow_run: str) -> dict[str, str]:
    """Return the hash of every release of a run by its slot."""
    run = site.manifest(flow_run)
    entries = site.pipeline.entries(run["dataset"])
    return {
        entry["slot"]: entry["output_hash"]
        for entry in entries
        if entry["kind"] == "release" and entry["run_id"] == run["run_id"]
    }


def test_a_failed_run_shows_the_reason_and_the_next_move(story: Story, failed: str) -> None:
    story.open_run(failed, "Details")
    story.window.see("State Message", "Every PLM is down in iteration 1", "requires a key", "Retry")
    story.window.shot("retry-1-failed", whole=True)


def test_retry_reuses_finished_steps_and_requests_nothing_twice(
    story: Story, failed: str, vendor: VendorServer
) -> None:
    stored = releases(story.site, failed)
    before, vendor.plan = vendor.count, lambda request: None
    story.open_run(failed)
    story.retry()
    story.see_state("Completed")
    story.window.shot("retry-4-completed")
    assert vendor.count - before == SAMPLES - ANSWERED, "only what was missing was asked"
    assert len(stored) == 1
    assert releases(story.site, failed).items() > stored.items(), (
        "what was drawn was not drawn again"
    )
    steps = story.site.steps(failed)
    assert steps["generate gpt t=0"] == ["Completed", "Reused"]
    assert steps["vote t=0"] == ["Completed", "Reused"]
    story.open_run(failed, "Task Runs")
    story.window.type("vote t=0", "//input[@placeholder='Search by run name']")
    story.window.wait("the vote is reused", lambda: story.window.shown(REUSED))
    story.window.shot("retry-5-reused", whole=True)


def test_a_run_past_the_cap_is_refused_and_says_what_is_left(story: Story, finished: str) -> None:
    site, dataset = story.site, story.site.manifest(finished)["dataset"]
    private = SMALL["private"] | {"name": dataset}
    spent = site.pipeline.answer("budget", "show", dataset)["datasets"][0]["spent"]
    site.pipeline.answer("budget", "cap", dataset, "--epsilon", str(spent))
    flow_run = site.start(DEPLOYMENT, SMALL | {"private": private, "privacy": {"epsilon": 3.0}})
    story.open_run(flow_run, "Details")
    story.see_state("Failed")
    site.pipeline.answer("budget", "cap", dataset, "--epsilon", "100")
    story.window.see(
        "needs epsilon 3", "left", "missing", f"wasp budget cap {dataset}", "Nothing was spent"
    )
    story.window.shot("budget-refused")
    assert site.steps(flow_run) == {}, "nothing was begun"
