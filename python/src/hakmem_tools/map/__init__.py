# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem map: a picture of a process's superslabs and slots. See docs/map.md."""
