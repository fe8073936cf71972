"""Format the plan and results of an audit for the terminal and the run page."""

from connectors.interfaces.counts import counted, duration
from connectors.interfaces.json_values import Json
from connectors.interfaces.money import format_dollars
from tasks.accounting.guarantee import epsilon_text
from tasks.reporting.terminal import table


def plan(value: Json) -> str:
    """Return the plan of an audit as text."""
    money = "no money"
    if value["dollars_about"]:
        money = f"about {format_dollars(value['dollars_about'])} dollars for the whole run"
    lines = [
        "opens         nothing private: all records are synthetic or public",
        f"spends        no budget; {money}",
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
    rows = [_row(line) for line in findings(value)]
    page = value["audit"].replace("audit.json", "report.html")
    lines = [table([list(row.values()) for row in rows], tuple(rows[0])), "", sentence(value)]
    lines += [f"canaries    {line}" for line in _guesses(value)]
    lines += [f"note        {line}" for line in notes(value)]
    lines += [f"red         {line}" for line in reasons(value)]
    lines += ["", f"findings    {value['audit']}", f"report      {page}"]
    return "\n".join(lines)


def findings(value: Json) -> list[Json]:
    """Return the findings of each mechanism and of the whole run, if it was attacked."""
    lines = list(value["mechanisms"])
    # Findings of earlier versions have no such key.
    if value.get("pipeline"):
        lines.append(value["pipeline"])
    return lines


def sentence(value: Json) -> str:
    """Return the verdict, its basis and its cost as a sentence."""
    head = "No attack proves more than is claimed" if value["passed"] else "Audit is RED"
    return (
        f"{head}; {value['trials']} runs each with and without the canary per mechanism, confidence "
        f"{value['confidence']:g}; epsilon spent 0; {duration(value['seconds'])}"
    )


def _guesses(value: Json) -> list[str]:
    """Return the finding of each attack on a whole run, if one was attacked."""
    if not value["pipeline"]:
        return []
    return [
        f"whole run, by {attack['what']}: AUC {attack['auc']:.3f}, {attack['correct']} of {attack['guesses']} guesses "
        f"correct, at least epsilon {attack['bound']:.4f}"
        for attack in value["pipeline"]["attacks"]
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
        if not mechanism["sound"]:
            problems.append(_too_much(mechanism))
        if not mechanism["fresh"]:
            problems.append(f"{name}: noise is not fresh ({mechanism['freshness']})")
        if not mechanism["number_kept"]:
            problems.append(f"{name}: more releases than planned ({mechanism['number']})")
    if whole is not None and not whole["passed"]:
        problems.append(_too_much(whole))
    return problems


def _too_much(mechanism: Json) -> str:
    return (
        f"{mechanism['mechanism']}: epsilon {epsilon_text(mechanism['epsilon_claimed'])} is claimed, at least "
        f"{_epsilon(mechanism)} is proven at delta {mechanism['delta']:g}"
    )


def _epsilon(finding: Json) -> str:
    return f"epsilon {finding['epsilon_proven']:.4f}"


def _row(line: Json) -> Json:
    """Return the row of a mechanism, or of the whole run, in the table of an audit."""
    verdict = "passed" if line["passed"] else "RED"
    # A whole run has no finding about fresh noise or a printed epsilon.
    if not line.get("stated_holds", True):
        verdict += ", stated is no guarantee"
    return {
        "mechanism": line["mechanism"],
        "protects": f"{line['protects']}, {line['adjacency']}",
        "stated": epsilon_text(line["epsilon_stated"]),
        "claimed": epsilon_text(line["epsilon_claimed"]),
        "proven at least": epsilon_text(line["epsilon_proven"]),
        "fresh noise": "yes" if line.get("fresh", True) else "NO",
        "releases": line["releases"],
        "verdict": verdict,
    }
