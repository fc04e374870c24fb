# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the Python tools share: errors, the hakmem command, figures as text. See docs/python-tools.md."""
