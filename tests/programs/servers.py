# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Real programs under hakmem: plays that start a server, use it over loopback and stop it.

Who uses it: tests/programs/cases.py. A server listens on 127.0.0.1 only, on a port that is free; it
is stopped whatever happens. It never leaves a process behind.
"""

import socket
import subprocess
import time
from pathlib import Path

from stage import Stage, StageError, Step, describe_status

START_SECONDS = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise StageError(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")


def check_library_is_mapped(stage: Stage, server: subprocess.Popen[bytes]) -> None:
    if stage.library is None:
        return
    maps = Path(f"/proc/{server.pid}/maps").read_text(encoding="utf-8")
    if str(stage.library.resolve()) not in maps:
        raise StageError(f"{stage.library} is not in the map of the running server")


def ask_redis(stage: Stage, port: int, *words: str) -> str:
    """Asks without hakmem and without a record: answers such as memory use differ every time."""
    done = subprocess.run(
        ["redis-cli", "-h", "127.0.0.1", "-p", str(port), *words],
        env=stage.environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if done.returncode != 0:
        raise StageError(f"redis-cli {' '.join(words)} failed: {done.stdout}{done.stderr}")
    return done.stdout.replace("\r", "")


def field_of(info: str, name: str) -> str:
    for line in info.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value
    raise StageError(f"INFO of redis has no {name}")


def load_redis(stage: Stage, port: int) -> None:
    # The requests' rates differ from run to run; that all of them were answered is recorded.
    load = Step(
        (
            "redis-benchmark",
            "-h",
            "127.0.0.1",
            "-p",
            str(port),
            "-t",
            "set,get,lpush",
            "-n",
            "20000",
            "-r",
            "5000",
            "-d",
            "300",
            "-P",
            "4",
            "--csv",
        )
    )
    quiet = Stage(stage.directory / "load", stage.library, (), stage.measured)
    for line in quiet.run(load).splitlines()[1:]:
        name, rate = line.replace('"', "").split(",")[:2]
        if float(rate) <= 0:
            raise StageError(f"redis-benchmark reports no rate: {line}")
        stage.note(f"{name}: 20000 requests")
    stage.add(quiet)


def use_redis(stage: Stage, port: int) -> None:
    stage.note(ask_redis(stage, port, "ping"))
    load_redis(stage, port)
    for number in range(20):
        fill = f"for i=1,500 do redis.call('hset','h{number}',i,string.rep('v',i*7)) end return 1"
        ask_redis(stage, port, "eval", fill, "0")
    stage.note("lpush list length " + ask_redis(stage, port, "llen", "mylist"))
    stage.note("hash length " + ask_redis(stage, port, "hlen", "h7"))
    info = ask_redis(stage, port, "info")
    stage.note("version " + field_of(info, "redis_version"))
    if int(field_of(info, "total_commands_processed")) < 60000:
        raise StageError(f"redis has processed too few commands: {info}")
    if int(field_of(info, "used_memory")) <= 0:
        raise StageError(f"redis does not know how much memory it uses: {info}")
    stage.note("save " + ask_redis(stage, port, "save"))
    stage.note("flushall " + ask_redis(stage, port, "flushall"))


def play_redis(stage: Stage) -> None:
    port = free_port()
    log = stage.directory / "log"
    command = [
        "redis-server",
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--dir",
        str(stage.directory),
        "--save",
        "",
        "--appendonly",
        "no",
        "--daemonize",
        "no",
        "--logfile",
        str(log),
    ]
    log.touch()
    server = subprocess.Popen(
        command,
        cwd=stage.directory,
        env=stage.preload_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_port(port, server, log)
        check_library_is_mapped(stage, server)
        use_redis(stage, port)
        stage.measure_process(server.pid)
        ask_redis(stage, port, "shutdown", "nosave")
        status = server.wait(timeout=20)
        stage.note(f"server: {describe_status(status)}")
        if status != 0:
            raise StageError(f"the server ended with {describe_status(status)}: {log.read_text()}")
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
