"""Format the plan and results of an audit for the terminal and the run page."""

from connectors.interfaces.counts import counted, duration
from connectors.interfaces.json_values import Json
from connectors.interfaces.money import format_dollars
from tasks.accounting.guarantee import epsilon_text
from tasks.reporting.terminal import table


def plan(value: Json) -> str:
    """Return the plan of an audit as text."""
    money = (
        f"about {format_dollars(value['dollars_about'])} dollars for the whole run"
        if value["dollars_about"]
        else ""
    )
    lines = [
        "opens         nothing private: all records are synthetic or public",
        f"spends        no budget; {money or 'no money'}",
        f"draws         {value['draws']} noisy releases: {value['trials']} runs with and {value['trials']} without the "
        f"canary for {counted(len(value['mechanisms']), 'mechanism')}",
        f"bounds        hold with confidence {value['confidence']:g}",
    ]
    width = max(len(mechanism["mechanism"]) for mechanism in value["mechanisms"]) + 1
    for mechanism in value["mechanisms"]:
        lines.append(
            f"{mechanism['mechanism']:<{width}} {mechanism['noise']} noise of scale {mechanism['noise_scale']:.4f}, "
            f"{mechanism['releases']} release(s), epsilon stated {epsilon_text(mechanism['epsilon_stated'])}, claimed "
            f"{epsilon_text(mechanism['epsilon_claimed'])}, "
            f"delta {mechanism['delta']:g}, one {mechanism['protects']}, {mechanism['adjacency']}"
        )
    whole = value["pipeline"]
    if whole is not None:
        lines.append(
            f"whole run     {whole['samples']} texts by {', '.join(whole['models'])}, {whole['canaries']} canaries, "
            f"{whole['guesses']} guesses: at most {whole['epsilon_most']:.2f} of epsilon "
            f"{epsilon_text(whole['epsilon_claimed'])} can be proven, with confidence {whole['confidence']:g}"
        )
    return "\n".join(lines)


def summary(value: Json) -> str:
    """Return table, verdict and path of a finished audit as text."""
    lines = [_row(line) for line in findings(value)]
    page = value["audit"].replace("audit.json", "report.html")
    return "\n".join(
        [
            *(table([list(line.values()) for line in lines], tuple(lines[0])), "", sentence(value)),
            *(f"canaries    {line}" for line in _guesses(value)),
            *(f"note        {line}" for line in notes(value)),
            *(f"red         {line}" for line in reasons(value)),
            *("", f"findings    {value['audit']}", f"report      {page}"),
        ]
    )


def findings(value: Json) -> list[Json]:
    """Return the findings of each mechanism and of the whole run, if it was attacked."""
    return [*value["mechanisms"], *([value["pipeline"]] if value.get("pipeline") else [])]


def sentence(value: Json) -> str:
    """Return the verdict, its basis and its cost as a sentence."""
    head = "No attack proves more than is claimed" if value["passed"] else "Audit is RED"
    return (
        f"{head}; {value['trials']} runs each with and without the canary per mechanism, confidence "
        f"{value['confidence']:g}; epsilon spent 0; {duration(value['seconds'])}"
    )


def _guesses(value: Json) -> list[str]:
    """Return the finding of each attack on a whole run, if one was attacked."""
    attacks = value["pipeline"]["attacks"] if value["pipeline"] else []
    return [
        f"whole run, by {attack['what']}: AUC {attack['auc']:.3f}, {attack['correct']} of {attack['guesses']} guesses "
        f"correct, at least epsilon {attack['bound']:.4f}"
        for attack in attacks
    ]


def notes(value: Json) -> list[str]:
    """Return notes on mechanisms whose accounted epsilon exceeds the stated one."""
    return [
        f"{mechanism['mechanism']}: the printed epsilon {epsilon_text(mechanism['epsilon_stated'])} is no guarantee "
        f"for one {mechanism['protects']}, which can cost {epsilon_text(mechanism['epsilon_claimed'])}; at least "
        f"{_epsilon(mechanism)} is proven"
        for mechanism in value["mechanisms"]
        if not mechanism["stated_holds"]
    ]


def red(value: Json) -> str:
    """Return the problem and the required action as a message."""
    return (
        f"The audit is red: {'; '.join(reasons(value))}. Share nothing that was released with this mechanism and "
        f"fix its noise. Findings: {value['audit']}"
    )


def reasons(value: Json) -> list[str]:
    """Return the reasons for a red audit, empty if it passed."""
    problems = []
    whole = value["pipeline"]
    for mechanism in value["mechanisms"]:
        name = mechanism["mechanism"]
        problems += [] if mechanism["sound"] else [_too_much(mechanism)]
        problems += (
            [] if mechanism["fresh"] else [f"{name}: noise is not fresh ({mechanism['freshness']})"]
        )
        problems += (
            []
            if mechanism["number_kept"]
            else [f"{name}: more releases than planned ({mechanism['number']})"]
        )
    return problems if whole is None or whole["passed"] else [*problems, _too_much(whole)]


def _too_much(mechanism: Json) -> str:
    return (
        f"{mechanism['mechanism']}: epsilon {epsilon_text(mechanism['epsilon_claimed'])} is claimed, at least "
        f"{_epsilon(mechanism)} is proven at delta {mechanism['delta']:g}"
    )


def _epsilon(finding: Json) -> str:
    return f"epsilon {finding['epsilon_proven']:.4f}"


def _row(line: Json) -> Json:
    """Return the row of a mechanism, or of the whole run, in the table of an audit."""
    return {
        "mechanism": line["mechanism"],
        "protects": f"{line['protects']}, {line['adjacency']}",
        "stated": epsilon_text(line["epsilon_stated"]),
        "claimed": epsilon_text(line["epsilon_claimed"]),
        "proven at least": epsilon_text(line["epsilon_proven"]),
        "fresh noise": "yes" if line.get("fresh", True) else "NO",
        "releases": line["releases"],
        "verdict": ("passed" if line["passed"] else "RED")
        + ("" if line.get("stated_holds", True) else ", stated is no guarantee"),
    }
