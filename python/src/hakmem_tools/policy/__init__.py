# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`hakmem policy`: shows, compares, merges and checks policy files. See docs/learning.md."""
