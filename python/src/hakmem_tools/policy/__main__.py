# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`python -m hakmem_tools.policy` is hakmem-policy."""

from hakmem_tools.policy.cli import main

main()
