# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem top: what a process does with its memory, live in a terminal. See docs/top.md."""
