"""A profile names what used the processor, and in which step."""

import sys
import threading
import time
from pathlib import Path
from types import CodeType

import pytest

from tasks.prefect.runtime import named
from tests.benchmarks.profile_run import GROUPS, group_of, step_of, table
from tests.benchmarks.sampling import TASKS, Sampler
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(not TASKS.is_dir(), reason="clocks of threads are Linux'")
SITE = next(Path(place) for place in sys.path if place.endswith("site-packages"))


def code(file: Path | str, name: str) -> CodeType:
    return compile("", str(file), "exec").replace(co_name=name)


def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


RUN = code(ROOT / "flows/cli/main.py", "<module>")
STEP = (
    RUN,
    code(ROOT / "tasks/prefect/runtime.py", named(busy).__code__.co_name),
    code(ROOT / "tasks/prefect/public.py", "measure_iteration"),
)
FID = (
    *STEP,
    code(ROOT / "tasks/steps/students/evaluation.py", "measure"),
    code(ROOT / "tasks/metrics/metrics.py", "fid"),
)
IMPORTING = code("<frozen importlib._bootstrap>", "_find_and_load")
PANDAS, ARROW = (code(SITE / name / "__init__.py", "<module>") for name in ("pandas", "pyarrow"))


def test_processor_time_goes_to_the_thread_that_used_it_and_not_to_one_that_waits():
    waiting = threading.Event()
    idle = threading.Thread(target=waiting.wait)
    idle.start()
    before = time.process_time()
    with Sampler().watching() as sampler:
        worker = threading.Thread(target=busy, args=(0.3,))
        worker.start()
        worker.join()
    used = time.process_time() - before
    waiting.set()
    idle.join()
    found = sum(seconds for stack, seconds in sampler.spent.items() if busy.__code__ in stack)
    assert 0.2 < found <= used
    assert not any(threading.Event.wait.__code__ in stack and seconds > 0.1 for stack, seconds in sampler.spent.items())


@pytest.mark.parametrize(
    ("stack", "step", "group"),
    [
        (FID, "measure_iteration", "FID"),
        ((*FID, code(ROOT / "tasks/metrics/metrics.py", "_factor"), code(SITE / "numpy/linalg/_linalg.py", "qr")),
         "measure_iteration", "FID"),
        ((RUN, code(ROOT / "flows/engine/finish.py", "finish_run"),
          code(ROOT / "tasks/reporting/plot_style.py", "picture"),
          code(SITE / "matplotlib/figure.py", "savefig")), "end of the run", "plots"),
        ((RUN, IMPORTING, code(ROOT / "flows/methods/wasp/flow.py", "<module>"), IMPORTING, PANDAS, IMPORTING, ARROW),
         "command", "import of pandas"),
        ((RUN, IMPORTING, code(ROOT / "flows/methods/wasp/flow.py", "<module>")), "command", "import of own modules"),
        ((code("threading.py", "_bootstrap"), code(SITE / "prefect/events/worker.py", "_handle")),
         "beside the steps", "Prefect"),
        ((), "beside the steps", "threads of libraries"),
    ],
    ids=["fid", "below fid", "plots", "import", "own import", "beside", "nothing"],
)  # fmt: skip
def test_a_stack_belongs_to_its_innermost_step_and_to_what_it_was_called_for(
    stack: tuple[CodeType, ...], step: str, group: str
):
    assert (step_of(stack), group_of(stack)) == (step, group)


def test_the_tables_show_ten_costs_and_add_up_by_step():
    costs = [
        {"step": f"step {number % 2}", "group": f"group {number:02}", "seconds": 20.0 - number} for number in range(12)
    ]
    shown = table({"wall": 1.0, "processor": 174.0, "costs": costs})
    assert "group 09" in shown
    assert "group 10" not in shown
    assert "90.00 s   51.7%  step 0" in shown


def test_groups_name_files_that_exist():
    own = [place.split(":")[0] for place, _ in GROUPS if place.startswith(("tasks/", "connectors/", "flows/"))]
    assert own
    missing = [place for place in own if not list(ROOT.glob(f"{place.rstrip('/')}*"))]
    assert not missing
