# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`python -m hakmem_tools.bench` is hakmem-bench."""

from hakmem_tools.bench.cli import main

main()
