# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`hakmem prof`: heap profiles: switched on and off, read, symbolised, and shown. See docs/profiling.md."""
