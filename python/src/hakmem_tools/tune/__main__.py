# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`python -m hakmem_tools.tune` is hakmem-tune."""

from hakmem_tools.tune.cli import main

main()
