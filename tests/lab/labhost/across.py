# SPDX-License-Identifier: LGPL-2.1-or-later
"""What only several guests together can tell: the published table, and estimates against what patched kernels take."""

import json
import re

from . import lockless
from .guest import Check

# Objects that 2,000 empty memory cgroups added beside 8,000 tmpfs mounts on four nodes, and slab per cgroup, as published with
# the first submission of the patches (48 CPUs).
PUBLISHED = {
    "7.3-plain": (1024, 1_011_518, 548),
    "7.3-units63": (512, 1_023_787, 289),
    "7.3-ondemand": (512, 136, 42),
}
TOLERANCE = 0.05  # of an estimate
# Of the published objects. Slab per cgroup has more in it than units, and was published for other CPUs and another configuration.
TABLE_TOLERANCE = {"objects": 0.01, "slab": 0.05}
AT_LEAST = "dying: "
HAD_NAMES = f"{AT_LEAST}removed, had names"
CLASSES = (  # of a memcg, by its path, the first that matches
    ("root", r"/"),
    ("empty", r"/estimate/empty/\d+|/table/\d+"),
    ("names on one file system and a tmpfs", r"/estimate/one/\d+"),
    ("names on three file systems", r"/estimate/two/\d+"),
    ("names, some reclaimed", r"/estimate/reclaimed/\d+"),
    ("parents of those with names", r"/estimate/deep/\d+"),
    ("children with names", r"/estimate/deep/\d+/below"),
    ("removed, had names", r"/estimate/dying-lists/\d+"),
    ("removed, had a socket only", r"/estimate/dying-bare/\d+"),
    ("all others", r".*"),
)


def compare(results):
    """results: {(kernel, scenario): guest.Result} → (lines to print, checks)."""
    lines, checks = [], []
    tables = {kernel: r.figures for (kernel, scenario), r in results.items() if scenario == "table" and r.figures}
    if tables:
        more, checks = table(tables, results)
        lines += more
    lines += lockless.table(results)
    for scenario in ("table", "estimate"):
        plain = results.get(("7.3-plain", scenario))
        for kernel, key in (("7.3-units63", "units_63"), ("7.3-ondemand", "units_on_demand")):
            patched = results.get((kernel, scenario))
            if plain and patched:
                more, verdicts = estimates(scenario, plain.files, kernel, patched.files, key)
                lines += more
                checks += verdicts
    return lines, checks


def table(tables, results):
    checks = []
    lines = ["", "8,000 tmpfs mounts, then 2,000 memory cgroups, 4 nodes; published on 48 CPUs",
             f"{'kernel':14}{'':10}{'objects':>10} {'size':>5} {'published':>10} {'ratio':>6}  "
             f"{'KB/cgroup':>9} {'published':>9} {'ratio':>6}  {'units by census':>15}"]
    for kernel in PUBLISHED:
        for phase in ("empty", "dying", "gone"):
            figures = tables.get(kernel, {}).get(phase)
            if not figures:
                continue
            size, objects, slab = PUBLISHED[kernel]
            ours = figures[f"objects_{size}"]
            per = figures["slab_kb"] / figures["cgroups"]
            beside = phase == "empty" and figures["cgroups"] == 2000
            lines.append(
                f"{kernel if phase == 'empty' else '':14}{phase:10}{ours:10,} {size:5} "
                f"{f'{objects:,}' if beside else '-':>10} {f'{ours / objects:.3f}' if beside else '-':>6}  "
                f"{per:9.1f} {slab if beside else '-':>9} {f'{per / slab:.3f}' if beside else '-':>6}  "
                f"{census_units(results[kernel, 'table'].files, phase):>15}")
            # On demand there are too few of them for a ratio: the guest judges these.
            if beside and kernel != "7.3-ondemand":
                for name, ratio in (("objects", ours / objects), ("slab", per / slab)):
                    most = TABLE_TOLERANCE[name]
                    checks.append(Check("ok" if abs(ratio - 1) <= most else "not ok",
                                        f"{kernel}: {name} by the published ones: {ratio:.3f}, wanted 1 within {most:.0%}"))
    return lines, checks


def census_units(files, phase):
    """The units of all memcgs but the root, by our own count."""
    if f"census-{phase}.json" not in files:
        return "-"
    memcgs = json.loads(files[f"census-{phase}.json"])["memcgs"]
    return f"{sum(m['units'] for m in memcgs if m['path'] != '/'):,}"


def classify(memcgs, key):
    """{class: (memcgs, units)} in the order of CLASSES; None units where one of them is unknown.

    Dying memcgs are classes of their own. What lists they had is no longer known, so on demand their estimate is said to be
    a lower bound, and is judged as one.
    """
    sums = {}
    for memcg in memcgs:
        name = next(n for n, pattern in CLASSES if re.fullmatch(pattern, memcg["path"]))
        if memcg["state"] == "dying":
            name = AT_LEAST + name
        count, units = sums.get(name, (0, 0))
        sums[name] = count + 1, None if units is None or memcg[key] is None else units + memcg[key]
    return {name: sums[name] for prefix in ("", AT_LEAST) for name in (prefix + n for n, _ in CLASSES) if name in sums}


def estimates(scenario, plain, kernel, patched, key):
    """The estimate of the plain kernel, phase by phase and class by class, against the patched kernel's census."""
    lines, checks = [], []
    for file in sorted(plain):
        phase = re.fullmatch(r"estimate-(\w+)\.json", file)
        if not phase or f"census-{phase[1]}.json" not in patched:
            continue
        guess = classify(json.loads(plain[file])["memcgs"], key)
        truth = classify(json.loads(patched[f"census-{phase[1]}.json"])["memcgs"], "units")
        lines += ["", f"{scenario}, {phase[1]}: units estimated on 7.3-plain and taken on {kernel}",
                  f"{'class':38}{'memcgs':>12}{'estimated':>12}{'taken':>12}{'off by':>9}"]
        worst, least, kept = 0.0, 0, 0  # the latter two: of the dying, on demand
        for name in dict.fromkeys((*guess, *truth)):
            (m1, u1), (m2, u2) = guess.get(name, (0, 0)), truth.get(name, (0, 0))
            off = None if u1 is None or u2 is None else (0.0 if u1 == u2 else abs(u1 - u2) / max(u2, 1))
            lines.append(f"{name:38}{m1 if m1 == m2 else f'{m1}/{m2}':>12}{'?' if u1 is None else f'{u1:,}':>12}"
                         f"{u2:>12,}{'?' if off is None else f'{off:.1%}':>9}")
            # Each class by itself, so that one error does not hide behind another one, or behind the root's many units.
            if off is None or m1 != m2:
                worst = 1.0
            elif key == "units_on_demand" and name.startswith(AT_LEAST):
                # Half of it must be seen where names have set bits; where none did there is nothing to see.
                least, kept = least + u1, kept + u2
                worst = worst if u1 <= u2 and (u1 >= u2 / 2 or name != HAD_NAMES) else 1.0
            else:
                worst = max(worst, off)
        total1, total2 = (sum(u or 0 for _, u in side.values()) for side in (guess, truth))
        text = (f"{scenario}, {phase[1]}: the estimate for {kernel} is within {TOLERANCE:.0%} in every class"
                f"{' of live memcgs' if kept else ''}: off by {worst:.1%} at most, {total1:,} against {total2:,} units in all")
        if kept:
            text += f"; dying ones keep {kept:,}, of which it knew {least:,}"
        checks.append(Check("ok" if worst <= TOLERANCE else "not ok", text))
    if not checks:
        checks.append(Check("not ok", f"{scenario}: an estimate of 7.3-plain and a census of {kernel} to compare"))
    return lines, checks
