"""A PostgreSQL server of our own, for benchmarks and tests: made, run and thrown away."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def find_binaries() -> Path | None:
    """Where PostgreSQL's server programs are, None if nowhere."""
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if shutil.which("pg_config"):
        asked = subprocess.run(["pg_config", "--bindir"], capture_output=True, check=True)
        candidates.insert(0, Path(asked.stdout.decode().strip()))
    return next((each for each in candidates if (each / "initdb").exists()), None)


@contextmanager
def running(binaries: Path, *, fsync: bool) -> Iterator[str]:
    """Run a server as a user without privileges; yields the URL of an empty database."""
    folder = Path(tempfile.mkdtemp(prefix="capgate-pg-"))
    user: dict[str, Any] = {"user": "postgres"} if os.geteuid() == 0 else {}
    if user:
        owner = pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)

    def run(name: str, *arguments: object) -> None:
        command = [binaries / name, "-D", folder / "data", *map(str, arguments)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, **user)

    port = _spare_port()
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync={int(fsync)}"
    run("initdb", "--auth=trust", "--username=capgate", "--no-sync", "--encoding=UTF8")
    run("pg_ctl", "-w", "-l", folder / "log", "-o", options, "start")
    try:
        yield f"postgresql://capgate@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def _spare_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
