# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Python tools of hakmem. Each subpackage is one command. Importing this imports nothing."""

__version__ = "0.1.0"
