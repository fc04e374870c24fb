# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`python -m hakmem_tools.timeline` is hakmem-timeline."""

from hakmem_tools.timeline.cli import main

main()
