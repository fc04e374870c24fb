# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`python -m hakmem_tools.top` is hakmem-top."""

from hakmem_tools.top.cli import main

main()
