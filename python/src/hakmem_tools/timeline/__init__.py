# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`hakmem timeline`: memory over time as trace events, for Perfetto and chrome://tracing. See docs/timeline.md."""
