# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`hakmem tune`: tries the arms of all knobs on a recorded trace. See docs/learning.md."""
