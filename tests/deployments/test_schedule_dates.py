"""Dates of Prefect's schedules when the clocks change: the reasons for the advice of `docs/guides/schedule.md`."""

import asyncio
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from prefect.server.schemas.schedules import CronSchedule, IntervalSchedule

BERLIN = ZoneInfo("Europe/Berlin")
SPRING = datetime(2027, 3, 27, tzinfo=BERLIN)
"""The day before the hour from 2 to 3 is skipped."""
AUTUMN = datetime(2027, 10, 31, tzinfo=BERLIN)
"""The day whose hour from 2 to 3 comes twice."""


def times(schedule: Any, start: datetime, number: int) -> list[str]:
    dates = asyncio.run(schedule.get_dates(number, start=start))
    return [date.strftime("%d %H:%M:%S") for date in dates]


def test_the_last_of_six_fields_is_the_second() -> None:
    schedule = CronSchedule(cron="0 3 * * * 30", timezone="UTC")
    assert times(schedule, SPRING, 1) == ["27 03:00:30"]


def test_an_interval_whose_hour_is_skipped_stays_an_hour_late() -> None:
    anchor = datetime(2027, 3, 1, 2, tzinfo=BERLIN)
    schedule = IntervalSchedule(
        interval=timedelta(days=1), anchor_date=anchor, timezone="Europe/Berlin"
    )
    assert times(schedule, SPRING, 3) == ["27 02:00:00", "28 03:00:00", "29 03:00:00"]
    assert times(schedule, datetime(2028, 1, 10, tzinfo=BERLIN), 1) == ["10 03:00:00"]


@pytest.mark.parametrize(
    "schedule",
    [
        CronSchedule(cron="0 * * * *", timezone="Europe/Berlin"),
        IntervalSchedule(
            interval=timedelta(hours=1),
            anchor_date=datetime(2027, 3, 1, tzinfo=BERLIN),
            timezone="Europe/Berlin",
        ),
    ],
    ids=["cron", "interval"],
)
def test_an_hour_that_comes_twice_has_one_run(schedule: Any) -> None:
    hours = ["31 01:00:00", "31 02:00:00", "31 03:00:00"]
    assert times(schedule, AUTUMN + timedelta(hours=1), 3) == hours


def test_cron_in_utc_leaves_out_no_hour_and_repeats_none() -> None:
    schedule = CronSchedule(cron="0 * * * *", timezone="UTC")
    start = datetime(2027, 10, 31, 0, tzinfo=ZoneInfo("UTC"))
    assert times(schedule, start, 4) == [f"31 {hour:02}:00:00" for hour in range(4)]
