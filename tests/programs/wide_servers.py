# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Real programs under hakmem: plays with the servers of `make programs`.

Who uses it: tests/programs/wide.py. Servers listen on 127.0.0.1 or on a socket in the stage, and are
stopped whatever happens. Servers that refuse to run as root run as nobody. It never leaves a
process behind.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from servers import START_SECONDS, check_library_is_mapped, free_port, wait_for_port
from stage import Stage, StageError, Step, describe_status

POSTGRES = str(next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))), "postgres"))
NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
STOP_SECONDS = 60

SQL = """
CREATE TABLE towns (id INTEGER PRIMARY KEY, name VARCHAR(40), people INTEGER);
CREATE TABLE roads (a INTEGER, b INTEGER, length INTEGER);
{numbers}
INSERT INTO towns SELECT n, CONCAT('town ', n * 7919 % 10007), n * 31 % 9973 FROM numbers;
INSERT INTO roads SELECT n, n * 17 % 5000 + 1, n % 97 FROM numbers;
CREATE INDEX by_people ON towns (people);
CREATE INDEX by_start ON roads (a);
SELECT 'towns', COUNT(*), SUM(people), MAX(name) FROM towns;
SELECT t.name, COUNT(*), SUM(length) FROM towns t JOIN roads r ON r.b = t.id WHERE people < 500
    GROUP BY t.name ORDER BY 3 DESC, 1 LIMIT 5;
UPDATE towns SET name = REPLACE(name, '7', 'seven') WHERE people % 3 = 0;
SELECT COUNT(*), MIN(name) FROM towns WHERE name LIKE '%seven%';
DELETE FROM roads WHERE length < 50;
SELECT COUNT(*), SUM(length) FROM roads;
"""


@contextmanager
def running(
    stage: Stage, command: list[str], ready: Callable[["subprocess.Popen[bytes]"], None]
) -> Iterator["subprocess.Popen[bytes]"]:
    """Starts a server with the stage's library and stops it with SIGTERM; its end is recorded."""
    with (stage.directory / "server.log").open("ab") as log:
        server = subprocess.Popen(
            command,
            cwd=stage.directory,
            env=stage.preload_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        ready(server)
        check_library_is_mapped(stage, server)
        yield server
        stage.measure_process(server.pid)
        server.send_signal(signal.SIGTERM)
        status = server.wait(timeout=STOP_SECONDS)
        stage.note(f"{Path(command[0]).name}: {describe_status(status)}")
        if status not in (0, -signal.SIGTERM):
            raise StageError(f"{command[0]} ended with {describe_status(status)}")
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def on_port(stage: Stage, port: int) -> "Callable[[subprocess.Popen[bytes]], None]":
    """Waits until something listens."""
    return lambda server: wait_for_port(port, server, stage.directory / "server.log")


def on_file(stage: Stage, path: Path) -> "Callable[[subprocess.Popen[bytes]], None]":
    """Waits until there is a file, such as a socket."""

    def wait(server: "subprocess.Popen[bytes]") -> None:
        end = time.monotonic() + 3 * START_SECONDS
        while not path.exists():
            if server.poll() is not None or time.monotonic() > end:
                raise StageError((stage.directory / "server.log").read_text(errors="replace"))
            time.sleep(0.05)

    return wait


def on_log(stage: Stage, text: str) -> "Callable[[subprocess.Popen[bytes]], None]":
    """Waits until the server says so."""
    log = stage.directory / "server.log"

    def wait(server: "subprocess.Popen[bytes]") -> None:
        end = time.monotonic() + START_SECONDS
        while text not in log.read_text(errors="replace"):
            if server.poll() is not None or time.monotonic() > end:
                raise StageError(log.read_text(errors="replace"))
            time.sleep(0.05)

    return wait


def fetch(stage: Stage, url: str) -> None:
    """Files of several sizes by curl, some of them compressed on the way."""
    for path in ("small.txt", "large.bin", "none"):
        words = (
            "curl",
            "-s",
            "--compressed",
            "-o",
            f"got-{path}",
            "-w",
            "%{http_code} %{size_download}\\n",
        )
        quiet = Stage(stage.directory / "fetch", stage.library, (), stage.measured)
        stage.note(path + " " + quiet.run(Step((*words, f"{url}/{path}"))))
        stage.add(quiet)
    many = ("curl", "-s", "-Z", "--parallel-max", "8", "-o", "many-#1", "-w", "%{http_code}\\n")
    answers = Stage(stage.directory / "fetch", stage.library, (), stage.measured)
    codes = answers.run(Step((*many, f"{url}/small.txt?[1-400]"))).split()
    stage.note(f"{codes.count('200')} of {len(codes)} at a time")
    stage.add(answers)


def make_site(stage: Stage) -> Path:
    """What the servers serve. They may run as somebody else."""
    site = stage.directory / "site"
    site.mkdir(mode=0o755)
    stage.directory.chmod(0o755)
    (site / "small.txt").write_text("".join(f"line {i}\n" for i in range(500)), encoding="ascii")
    (site / "large.bin").write_bytes(bytes(i * 7919 % 251 for i in range(2_000_000)))
    return site


def play_web(stage: Stage) -> None:
    """curl asks haproxy, which asks nginx."""
    site, back, front = make_site(stage), free_port(), free_port()
    here = stage.directory
    (here / "nginx.conf").write_text(
        f"daemon off; pid {here}/nginx.pid; worker_processes 2; error_log {here}/error.log;\n"
        f"events {{ worker_connections 256; }}\nhttp {{ access_log {here}/access.log; gzip on;\n"
        f"gzip_types text/plain; client_body_temp_path {here}/t1; proxy_temp_path {here}/t2;\n"
        f"fastcgi_temp_path {here}/t3; uwsgi_temp_path {here}/t4; scgi_temp_path {here}/t5;\n"
        f"server {{ listen 127.0.0.1:{back}; root {site}; }} }}\n",
        encoding="ascii",
    )
    (here / "haproxy.cfg").write_text(
        "defaults\n mode http\n timeout connect 10s\n timeout client 30s\n timeout server 30s\n"
        f"frontend f\n bind 127.0.0.1:{front}\n default_backend b\n"
        f"backend b\n server s 127.0.0.1:{back}\n",
        encoding="ascii",
    )
    nginx = ["/usr/sbin/nginx", "-p", str(here), "-c", str(here / "nginx.conf")]
    haproxy = ["/usr/sbin/haproxy", "-db", "-f", str(here / "haproxy.cfg")]
    with (
        running(stage, nginx, on_port(stage, back)),
        running(stage, haproxy, on_port(stage, front)),
    ):
        fetch(stage, f"http://127.0.0.1:{front}")


def play_lighttpd(stage: Stage) -> None:
    """curl asks lighttpd."""
    site, port = make_site(stage), free_port()
    config = stage.directory / "lighttpd.conf"
    config.write_text(
        f'server.document-root = "{site}"\nserver.port = {port}\nserver.bind = "127.0.0.1"\n',
        encoding="ascii",
    )
    with running(stage, ["/usr/sbin/lighttpd", "-D", "-f", str(config)], on_port(stage, port)):
        fetch(stage, f"http://127.0.0.1:{port}")


def play_memcached(stage: Stage) -> None:
    """Its text protocol, over one connection."""
    port, items = free_port(), 20_000
    command = ["memcached", "-l", "127.0.0.1", "-p", str(port), "-m", "64", "-t", "2"]
    command += ["-u", "nobody"] if os.geteuid() == 0 else []
    with (
        running(stage, command, on_port(stage, port)),
        socket.create_connection(("127.0.0.1", port)) as link,
    ):
        stream = link.makefile("rwb")
        for number in range(items):
            value = b"v" * (number * 37 % 3000)
            stream.write(b"set k%d 0 0 %d\r\n%s\r\n" % (number, len(value), value))
            if number % 3 == 0:
                stream.write(b"append k%d 0 0 3\r\nend\r\n" % number)
            stream.flush()
            stored = [stream.readline() for _ in range(1 + (number % 3 == 0))]
            if set(stored) != {b"STORED\r\n"}:
                raise StageError(f"item {number}: {stored}")
        read = total = 0
        for number in range(items):
            stream.write(b"get k%d\r\n" % number)
            stream.flush()
            size = int(stream.readline().split()[3])
            total += len(stream.read(size + 2)) - 2
            read += stream.readline() == b"END\r\n"
        stage.note(f"read {read} items of {total} bytes")


def play_postgres(stage: Stage) -> None:
    """A cluster is made; then a server for one connection. Both refuse root."""
    as_user: tuple[str, ...] = ()
    if os.geteuid() == 0:
        shutil.chown(stage.directory, "nobody", "nogroup")
        as_user = NOBODY
    data = str(stage.directory / "data")
    quiet = Stage(stage.directory / "out", stage.library, (), stage.measured)
    quiet.directory.chmod(0o777)
    initdb = (
        str(Path(POSTGRES).parent / "initdb"),
        "-D",
        data,
        "-N",
        "-A",
        "trust",
        "--no-locale",
        "-E",
        "UTF8",
    )
    quiet.run(Step((*as_user, *initdb)))
    stage.add(quiet)
    numbers = "CREATE TABLE numbers AS SELECT n::integer FROM generate_series(1, 40000) n;"
    lines = SQL.format(numbers=numbers).replace("\n    ", " ").strip() + "\nVACUUM FULL towns;\n"
    stage.run(Step((*as_user, POSTGRES, "--single", "-D", data, "postgres"), stdin=lines))


def play_mariadb(stage: Stage) -> None:
    """A server with a socket only, and its client."""
    here = stage.directory
    user = ["--user=root"] if os.geteuid() == 0 else []
    base = ["--no-defaults", f"--datadir={here}/data", *user]
    quiet = Stage(here / "out", stage.library, (), stage.measured)
    quiet.run(
        Step(
            (
                "mariadb-install-db",
                *base,
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            )
        )
    )
    stage.add(quiet)
    path = here / "s"
    command = [
        "/usr/sbin/mariadbd",
        *base,
        f"--socket={path}",
        "--skip-networking",
        "--innodb-buffer-pool-size=32M",
    ]
    command += [f"--pid-file={here}/pid", "--innodb-flush-log-at-trx-commit=0"]
    with running(stage, command, on_file(stage, path)):
        numbers = "CREATE TABLE numbers AS SELECT seq n FROM seq_1_to_40000;"
        client = ("mariadb", "--no-defaults", "-u", "root", "-S", str(path), "-N")
        script = "CREATE DATABASE d; USE d;" + SQL.format(numbers=numbers)
        stage.run(Step(client, stdin=script))


def play_bind(stage: Stage) -> None:
    """A zone of 3000 names, asked for one by one and as a whole."""
    here, port = stage.directory, free_port()
    names = "".join(f"host{i} IN A 10.0.{i // 250}.{i % 250}\n" for i in range(3000))
    head = "$TTL 60\n@ IN SOA ns a 1 60 60 60 60\n@ IN NS ns\nns IN A 127.0.0.1\n"
    (here / "zone").write_text(head + names, encoding="ascii")
    (here / "named.conf").write_text(
        f'options {{ directory "{here}"; pid-file none; listen-on port {port} {{ 127.0.0.1; }};\n'
        "listen-on-v6 { none; }; recursion no; allow-transfer { any; }; session-keyfile none;\n"
        "dnssec-validation no; };\n"
        'zone "example.test" { type primary; file "zone"; };\ncontrols { };\n',
        encoding="ascii",
    )
    command = ["/usr/sbin/named", "-g", "-n", "2", "-c", str(here / "named.conf"), "-p", str(port)]
    with running(stage, command, on_log(stage, "all zones loaded")):
        dig = ("dig", "@127.0.0.1", "-p", str(port), "+tcp", "+noall", "+answer")
        (here / "names").write_text(
            "".join(f"host{i}.example.test A\n" for i in range(9, 3000, 10)), encoding="ascii"
        )
        stage.run(Step((*dig, "-f", "names")))
        stage.run(Step((*dig, "example.test", "AXFR")))
