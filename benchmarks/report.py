"""The table of a benchmark from its raw results.

python -m benchmarks.report benchmarks/results/FILE.jsonl [--peer "scikit-learn"]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.memory import KINDS

PEER = "scikit-learn"
NOTHING = "-"

Record = dict[str, Any]
"""One process: data_set, what, rows, contender, computes, warm_calls, cold, warm, memory, values, versions, ..."""


def report(records: Iterable[Record], peer: str = PEER) -> str:
    """A section of Markdown for each data set and number of rows, in the order of the records."""
    sections: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        sections.setdefault((record["data_set"], record["rows"]), []).append(record)
    return "\n\n".join(section(found, peer) for found in sections.values())


def section(records: Sequence[Record], peer: str) -> str:
    """The table of one data set."""
    contenders: dict[str, list[Record]] = {}
    for record in records:
        contenders.setdefault(record["contender"], []).append(record)
    ran = [name for name, found in contenders.items() if medians(found)[0] is not None]
    base = peer if peer in ran else next(iter(ran), None)
    cold_base, warm_base = medians(contenders[base]) if base else (None, None)
    first = records[0]
    lines = [
        f"### {first['data_set']}, {first['rows']:,} rows",
        "",
        f"{first['what'][:1].upper()}{first['what'][1:]}. {about(records)}",
        "",
        f"| contender | computes | runs | cold s | warm s | warm, least to most | cold / {base} | warm / {base} | "
        + " | ".join(f"{kind} MB" for kind in KINDS)
        + " | values |",
        "|---|---|" + "---:|" * (7 + len(KINDS)),
    ]
    notes = []
    for name, found in contenders.items():
        lines.append(row(name, found, cold_base, warm_base))
        if found[0].get("groups"):
            lines.append(scaled_row(name, found, warm_base))
        notes += [f"{name}: {record['failed']}" for record in found if record.get("failed")]
    return "\n".join([*lines, *(f"\n{note}" for note in dict.fromkeys(notes))])


def that_count(found: Sequence[Record]) -> list[Record]:
    """The runs of a contender that count: none, once one of its values was wrong."""
    if any(record.get("differs") for record in found):
        return []
    return [record for record in found if not record.get("failed")]


def medians(found: Sequence[Record]) -> tuple[float | None, float | None]:
    """Seconds cold and warm of the runs that count."""
    good = that_count(found)
    cold = [record["cold"] for record in good if record.get("cold") is not None]
    warm = [seconds for record in good for seconds in record.get("warm", ())]
    return median(cold) if cold else None, median(warm) if warm else None


def row(name: str, found: Sequence[Record], cold_base: float | None, warm_base: float | None) -> str:
    good = that_count(found)
    cold, warm = medians(found)
    limit = next((record["timeout"] for record in good if record.get("timeout")), None)
    warm_times = [seconds for record in good for seconds in record.get("warm", ())]
    spread = f"{number(min(warm_times))} to {number(max(warm_times))}" if warm_times else NOTHING
    times = [number(cold), number(warm), spread, ratio(cold, cold_base), ratio(warm, warm_base)]
    if limit is not None and cold is None:
        times[0] = f"> {limit:g}"
    elif limit is not None and warm is None:
        times[1] = f"> {limit:g} with cold"
    memory = [max((record.get("memory", {}).get(kind, 0) for record in good), default=0) for kind in KINDS]
    cells = [
        name,
        found[0]["computes"],
        str(sum(record.get("cold") is not None for record in good)),
        *times,
        *(f"{megabytes:,}" if megabytes else NOTHING for megabytes in memory),
        f"{max((record.get('values', 0) for record in good), default=0):,}",
    ]
    return f"| {' | '.join(cells)} |"


def scaled_row(name: str, found: Sequence[Record], warm_base: float | None) -> str:
    """What all groups would take, at the mean time of a group of the sample."""
    measured, there_are = found[0]["groups"]
    warm = medians(found)[1]
    scaled = warm * there_are / measured if warm is not None else None
    cells = [f"{name}, {measured} groups scaled to {there_are}", found[0]["computes"], NOTHING, NOTHING]
    cells += [number(scaled), NOTHING, NOTHING, ratio(scaled, warm_base), *[NOTHING] * (len(KINDS) + 1)]
    return f"| {' | '.join(cells)} |"


def number(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    return f"{seconds:.2f}" if seconds < 10 else f"{seconds:.1f}"


def ratio(seconds: float | None, base: float | None) -> str:
    return NOTHING if seconds is None or not base else f"{seconds / base:.2f}"


def about(records: Sequence[Record]) -> str:
    """The session, and the versions."""
    first = records[0]
    versions: dict[str, str] = {}
    for record in records:
        versions |= record.get("versions", {})
    session = f"{first['cores']} cores, {first['heap']} of heap, {first['partitions']} shuffle partitions"
    return f"{session}. {', '.join(f'{name} {version}' for name, version in versions.items())}."


def read(path: Path) -> list[Record]:
    """The raw results; a last line that was cut off is left out."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description="The table of raw results.")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--peer", default=PEER, help="the contender that ratios are to (default: %(default)s)")
    options = parser.parse_args()
    print(report([record for file in options.files for record in read(file)], options.peer))


if __name__ == "__main__":
    main()
