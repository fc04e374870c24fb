# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`python -m hakmem_tools.prof` is hakmem-prof."""

from hakmem_tools.prof.cli import main

main()
