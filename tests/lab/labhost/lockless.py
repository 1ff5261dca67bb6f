# SPDX-License-Identifier: LGPL-2.1-or-later
"""The figures of the scenario lockless-shrink, one kernel beside the other."""

SCENARIO = "lockless-shrink"
BASE = "6.1"  # ratios are to this one, with the lock


def rates(figures):
    """What one guest measured → {what: number}. Unknown is not zero: what cannot be told is not in it."""
    sampled, counted = figures.get("sampled", {}), figures.get("counted", {})
    found = {}

    def add(name, top, bottom):
        if top is not None and bottom:
            found[name] = top / bottom

    seconds = sampled.get("usec", 0) / 1e6
    for name, key in (("touches / s", "touches"), ("mounts / s", "mounts"), ("names looked up / s", "lookups"),
                      ("slab objects scanned / s", "slabs_scanned"), ("pages scanned / s", "pages_scanned")):
        count = sampled.get(key)
        add(name, count * 64 if key == "lookups" and count is not None else count, seconds)
    for verb, key in (("touch", "touches"), ("mount", "mounts"), ("umount", "umounts")):
        for what in ("mean", "longest"):
            add(f"{verb}, {what}, ms", sampled.get(f"{key}_{what}_usec"), 1000)
    samples = sampled.get("samples")
    for symbol, count in figures.get("under", {}).items():
        add(f"in {symbol}() and below, %", count * 100, samples)
    # The second part of the scenario.
    seconds, passes = counted.get("usec", 0) / 1e6, counted.get("passes")
    add("passes / s", passes, seconds)
    add("passes / touch", passes, counted.get("touches"))
    if "slab_samples" in counted and "frequency" in counted:
        add("time of a pass, us", counted["slab_samples"] / counted["frequency"] * 1e6, passes)
    add("passes skipped, %", counted.get("skipped", 0) * 100 if "skipped" in counted else None, passes)
    return found


def hot(figures, count=10):
    """[(symbol, percent of samples)], the hottest first."""
    samples = figures.get("sampled", {}).get("samples")
    own = sorted(figures.get("self", {}).items(), key=lambda item: -item[1])
    return [(symbol, n * 100 / samples) for symbol, n in own[:count]] if samples else []


def table(results):
    """results: {(kernel, scenario): guest.Result} → lines; none if the scenario did not run."""
    kernels = {kernel: r.figures for (kernel, scenario), r in results.items() if scenario == SCENARIO and r.figures}
    if not kernels:
        return []
    columns = {kernel: rates(figures) for kernel, figures in kernels.items()}
    base = columns.get(BASE, {})
    lines = ["", "4,000 cgroups, 4,000 mounts: reclaim while file systems come and go; ratios to 6.1",
             f"{'':36}" + "".join(f"{kernel:>14}{'':8}" for kernel in columns)]
    for name in dict.fromkeys(name for column in columns.values() for name in column):
        line = f"{name:36}"
        for kernel, column in columns.items():
            value = column.get(name)
            ratio = f"x{value / base[name]:.2f}" if kernel != BASE and value is not None and base.get(name) else ""
            line += f"{'-' if value is None else f'{value:,.1f}':>14}{ratio:>8}"
        lines.append(line)
    for kernel, figures in kernels.items():
        top = ", ".join(f"{symbol} {percent:.1f}" for symbol, percent in hot(figures))
        lines.append(f"hot on {kernel}, %: {top}")
    return lines
