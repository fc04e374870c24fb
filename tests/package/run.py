#!/usr/bin/env python3
"""Builds the Debian packages of what is committed or changed, has lintian look at them, and runs a program with the
files that they install.

    run.py FOLDER       FOLDER is emptied first; the packages stay in it

Debian packages debhelper, dpkg-dev, lintian. Installs nothing.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"hakmem", "libhakmem0", "libhakmem-hardened0", "libhakmem-prefixed0", "libhakmem-dev"}
LINTIAN = ["lintian", "--fail-on", "error,warning"]


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    """Runs a command; ends with what it printed if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed with status {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


def copy_source(to: Path) -> None:
    """The files that git knows, as they are in the working tree."""
    names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder=ROOT).split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def main() -> int:
    """Builds, looks, runs."""
    folder = Path(sys.argv[1]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    source, root = folder / "source", folder / "root"
    source.mkdir(parents=True)
    copy_source(source)
    run("dpkg-buildpackage", "--build=binary", "--unsigned-source", "--unsigned-changes", folder=source,
        DEB_BUILD_OPTIONS="parallel=2 noautodbgsym")
    packages = sorted(folder.glob("*.deb"))
    built = {package.name.split("_")[0] for package in packages}
    if built != PACKAGES:
        sys.exit(f"built {sorted(built)}, expected {sorted(PACKAGES)}")
    # Without dpkg-buildpackage's variables, as Debian's policy wants it; and what is for another machine is not run.
    run("make", "-f", "debian/rules", "override_dh_auto_test", folder=source)
    run("make", "-f", "debian/rules", "override_dh_auto_test", "DEB_HOST_GNU_TYPE=other", folder=source)
    print(run(*LINTIAN, *folder.glob("*.changes"), folder=folder), end="")
    for package in packages:
        run("dpkg-deb", "--extract", package, root, folder=folder)
    command = root / "usr" / "bin" / "hakmem"
    said = run(command, "run", "--check", "--", "true", folder=root)
    if f"library     {root}/usr/lib/" not in said or "can be taken over" not in said:
        sys.exit(f"hakmem run --check said:\n{said}")
    run(command, "run", "--hardened", "--", "true", folder=root)
    said = run(command, "version", folder=root)
    version = packages[0].name.split("_")[1]
    if said.splitlines()[0] != f"hakmem {version}":
        sys.exit(f"debian/changelog has version {version}, and hakmem version said:\n{said}")
    print(f"{len(packages)} packages of version {version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
