# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`python -m hakmem_tools.map` is hakmem-map."""

from hakmem_tools.map.cli import main

main()
