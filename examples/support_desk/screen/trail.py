"""The verdict on the audit: the file as it is, and a copy in which one line was altered."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from capgate.audit import verify_chain


def trail_verdict(trail: Path) -> tuple[bool, Text]:
    """Return whether the trail holds and a forged one does not, with the words for both."""
    lines = trail.read_bytes().splitlines(keepends=True)
    report = verify_chain(lines)
    forged_line, forged = _forge(lines)
    caught = verify_chain(forged)
    good = report.ok and caught.first_bad == forged_line
    holds = ("the hash chain holds", "green") if report.ok else ("the chain is BROKEN", "bold red")
    return good, Text.assemble(
        ("Audit  ", "bold"),
        f"{report.checked} events, ",
        holds,
        f"; a copy with line {forged_line} forged fails at line {caught.first_bad}.",
    )


def _forge(lines: list[bytes]) -> tuple[int, list[bytes]]:
    position = next(n for n, line in enumerate(lines, start=1) if b"u_agent" in line)
    forged = lines.copy()
    forged[position - 1] = forged[position - 1].replace(b"u_agent", b"u_other")
    return position, forged
