#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""conf/alerts/shrinkwatch.rules.yaml: promtool takes it; each rule fires when it is to, and is silent when it is not."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "conf" / "alerts" / "shrinkwatch.rules.yaml"
HOST = 'instance="a:9100",job="node"'
MEMORY = 400_000_000_000

# A host that is well: each series as promtool writes them, one value a minute. Time begins at 0.
WELL = {
    "up": "1x420",
    "shrinkwatch_build_info": "1x420",
    "shrinkwatch_memory_bytes": f"{MEMORY}x420",
    'shrinkwatch_overhead_bytes{state="live"}': "1000000000x420",
    'shrinkwatch_overhead_bytes{state="dying"}': "1000000000x420",
    'shrinkwatch_pinned_overhead_bytes{cause="writeback"}': "1000x420",
    'shrinkwatch_pinned_overhead_bytes{cause="swap"}': "1000x420",
    "shrinkwatch_shrinker_ids": "9000x420",
    "shrinkwatch_shrinker_ids_in_use": "8500x420",
    'shrinkwatch_findings{kind="memcg-ids"}': "0x420",
    'shrinkwatch_findings{kind="host"}': "1x420",
    "shrinkwatch_census_timestamp_seconds": "0+60x420",
    "shrinkwatch_census_interval_seconds": "60x420",
    "shrinkwatch_degraded": "0x420",
}
GONE = {name: None for name in WELL if name != "up"}
STOPS = {name: f"{values.rpartition('x')[0]}x10 stale" for name, values in WELL.items() if name != "up"}
DYING = 'shrinkwatch_overhead_bytes{state="dying"}'
WRITEBACK = 'shrinkwatch_pinned_overhead_bytes{cause="writeback"}'
SWAP = 'shrinkwatch_pinned_overhead_bytes{cause="swap"}'
STRANDED = {"shrinkwatch_shrinker_ids_in_use": "4000x420", DYING: "8000000000x420"}

# What is about which rule, what of WELL is otherwise, at which minute, all that fires then.
CASES = [
    (None, "a host that is well", {}, 400, set()),
    ("OverheadHigh", "more than a tenth", {DYING: "39100000000x420"}, 15, {"OverheadHigh"}),
    ("OverheadHigh", "a tenth", {DYING: "39000000000x420"}, 400, set()),
    ("OverheadHigh", "not for long", {DYING: "39100000000x420"}, 14, set()),
    ("OverheadHigh", "memory not known", {DYING: "39100000000x420", "shrinkwatch_memory_bytes": None}, 400, set()),
    ("OverheadCritical", "more than a quarter", {DYING: "99100000000x420"}, 5, {"OverheadCritical"}),
    ("OverheadCritical", "for a while", {DYING: "99100000000x420"}, 15, {"OverheadCritical", "OverheadHigh"}),
    ("OverheadCritical", "a quarter", {DYING: "99000000000x420"}, 400, {"OverheadHigh"}),
    ("OverheadCritical", "not for long", {DYING: "99100000000x420"}, 4, set()),
    ("OverheadGrowing", "100 MB a minute", {DYING: "10000000000+100000000x420"}, 90, {"OverheadGrowing"}),
    ("OverheadGrowing", "not for long", {DYING: "10000000000+100000000x420"}, 89, set()),
    ("OverheadGrowing", "slowly", {DYING: "10000000000+30000000x420"}, 240, set()),
    ("OverheadGrowing", "from little", {DYING: "0+75000000x420"}, 92, set()),
    ("OverheadGrowing", "it falls", {DYING: "39000000000-30000000x420"}, 240, set()),
    ("PinnedByWriteback", "more than a hundredth", {WRITEBACK: "4000000001x420"}, 60, {"PinnedByWriteback"}),
    ("PinnedByWriteback", "a hundredth", {WRITEBACK: "4000000000x420"}, 400, set()),
    ("PinnedByWriteback", "not for long", {WRITEBACK: "4000000001x420"}, 59, set()),
    ("PinnedByWriteback", "not in one go", {WRITEBACK: "4000000001x50 0 4000000001x420"}, 110, set()),
    ("PinnedByWriteback", "not known", {WRITEBACK: None}, 400, set()),
    ("PinnedBySwap", "more than a hundredth", {SWAP: "4000000001x420"}, 360, {"PinnedBySwap"}),
    ("PinnedBySwap", "a hundredth", {SWAP: "4000000000x420"}, 400, set()),
    ("PinnedBySwap", "not for long", {SWAP: "4000000001x420"}, 359, set()),
    ("StrandedIds", "5000 of 9000", STRANDED, 360, {"StrandedIds"}),
    ("StrandedIds", "not for long", STRANDED, 359, set()),
    ("StrandedIds", "few", {**STRANDED, "shrinkwatch_shrinker_ids": "8096x420"}, 400, set()),
    ("StrandedIds", "half", {**STRANDED, "shrinkwatch_shrinker_ids_in_use": "4500x420"}, 400, set()),
    ("StrandedIds", "they cost little", {**STRANDED, DYING: "7000000000x420"}, 400, set()),
    ("StrandedIds", "not known", {**STRANDED, "shrinkwatch_shrinker_ids_in_use": None}, 400, set()),
    ("MemcgIdsLow", "a finding", {'shrinkwatch_findings{kind="memcg-ids"}': "1x420"}, 5, {"MemcgIdsLow"}),
    ("MemcgIdsLow", "not for long", {'shrinkwatch_findings{kind="memcg-ids"}': "1x420"}, 4, set()),
    ("CensusStale", "none since minute 10", {"shrinkwatch_census_timestamp_seconds": "0+60x10 600x420"}, 24, {"CensusStale"}),
    ("CensusStale", "not for long", {"shrinkwatch_census_timestamp_seconds": "0+60x10 600x420"}, 23, set()),
    ("CensusStale", "the interval is long", {"shrinkwatch_census_timestamp_seconds": "0+60x10 600x420",
                                             "shrinkwatch_census_interval_seconds": "600x420"}, 50, set()),
    ("Absent", "the file is gone since minute 10", STOPS, 26, {"Absent"}),
    ("Absent", "not for long", STOPS, 25, set()),
    ("Absent", "the host is not scraped", {**STOPS, "up": "1x10 0x420"}, 400, set()),
    ("Absent", "it was never there", GONE, 400, set()),
    ("Absent", "no census yet", {**GONE, "shrinkwatch_build_info": "1x420"}, 15, {"Absent"}),
    ("Degraded", "it is", {"shrinkwatch_degraded": "1x420"}, 15, {"Degraded"}),
    ("Degraded", "not for long", {"shrinkwatch_degraded": "1x420"}, 14, set()),
]


def series_of(changes):
    found = []
    for name, values in {**WELL, **changes}.items():
        if values is not None:
            metric, _, labels = name.rstrip("}").partition("{")
            found.append({"series": f"{metric}{{{HOST}{',' + labels if labels else ''}}}", "values": values})
    return found


def promtool_test(directory, tests):
    """Exit code and output of promtool over these tests. JSON is YAML."""
    path = pathlib.Path(directory, "test.yaml")
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run(["promtool", "test", "rules", path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return done.returncode, done.stdout


def test_of(case):
    """Exactly these fire, each once."""
    _, _, changes, minute, firing = case
    samples = [{"labels": f'{{alertname="Shrinkwatch{name}"}}', "value": 1} for name in sorted(firing)]
    expr = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {"interval": "1m", "input_series": series_of(changes),
            "promql_expr_test": [{"expr": expr, "eval_time": f"{minute}m", "exp_samples": samples}]}


def try_cases(directory):
    """What is wrong with each case. promtool takes its time to start: all at once, and one by one only to tell which is wrong."""
    if promtool_test(directory, [test_of(case) for case in CASES])[0] == 0:
        return [[] for _ in CASES]
    results = [promtool_test(directory, [test_of(case)]) for case in CASES]
    return [output.splitlines() if code else [] for code, output in results]


def try_texts(directory):
    """What people get to read: filled in, and about this host. promtool shows it when it is told to expect nothing."""
    first = {case[0]: case for case in reversed(CASES) if case[0] in case[4]}
    tests = [{"interval": "1m", "input_series": series_of(changes),
              "alert_rule_test": [{"eval_time": f"{minute}m", "alertname": f"Shrinkwatch{alert}"}]} for alert, _, changes, minute, _ in first.values()]
    output = promtool_test(directory, tests)[1]
    shown = dict(re.findall(r"alertname: ?Shrinkwatch(\w+), time(.*?)(?=alertname: ?Shrinkwatch\w+, time|\Z)", output, re.DOTALL))
    found = {}
    for alert in first:
        text = shown.get(alert, "")
        texts = dict(re.findall(r'(summary|description|runbook)="((?:[^"\\]|\\.)*)"', text))
        found[alert] = [f"no {name}" for name in ("summary", "description", "runbook") if not texts.get(name)]
        found[alert] += [f"{name}: {value}" for name, value in texts.items() if re.search(r"<no value>|<error|error calling|\{\{|NaN|%!", value)]
        found[alert] += [f"{name} does not name the host" for name in ("summary", "description") if "a:9100" not in texts.get(name, "")]
        if not re.search(r'severity="(warning|critical)"', text):
            found[alert].append("no severity")
    return found


def series_exist():
    """Every series that a rule reads is one that the daemon writes. Labels' values too."""
    metrics = (ROOT / "daemon" / "metrics.c").read_text()
    text = re.sub(r"^\s*#.*", "", RULES.read_text(), flags=re.MULTILINE)
    names = set(re.findall(r"\bshrinkwatch_(\w+)", text))
    return [f"shrinkwatch_{name}" for name in sorted(names) if f'"{name}"' not in metrics] or ([] if names else ["no series found"])


def every_rule_is_tried():
    alerts = set(re.findall(r"- alert: Shrinkwatch(\w+)", RULES.read_text()))
    found = [f"{name}: no case in which it fires" for name in alerts if not any(case[0] == name and name in case[4] for case in CASES)]
    found += [f"{name}: no case in which it is silent" for name in alerts if not any(case[0] == name and name not in case[4] for case in CASES)]
    return found + [f"{case[0]}: no such rule" for case in CASES if case[0] and case[0] not in alerts]


def main():
    points = [("every rule is tried for firing and for silence", every_rule_is_tried()), ("the daemon writes the series", series_exist())]
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "rules", RULES], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        points.append(("promtool check rules", done.stdout.splitlines() if done.returncode else []))
        with tempfile.TemporaryDirectory() as directory:
            wrong = (None, "", {}, 400, {"Degraded"})
            points.append(("a case that is wrong is noticed", [] if promtool_test(directory, [test_of(wrong)])[0] else ["it is not"]))
            points += [(f"{case[0] or 'all'}: {case[1]}", found) for case, found in zip(CASES, try_cases(directory))]
            points += [(f"{alert}: its text", found) for alert, found in try_texts(directory).items()]
    else:
        points.append(("promtool", None))
    print(f"1..{len(points)}")
    for number, (name, found) in enumerate(points, 1):
        print(f"{'not ok' if found else 'ok'} {number} - {name}{' # SKIP promtool is not installed' if found is None else ''}")
        for line in found or []:
            print(f"# {line}")
    return 1 if any(found for _, found in points) else 0


if __name__ == "__main__":
    sys.exit(main())
