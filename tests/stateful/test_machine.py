# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Stateful tests: how long hypothesis looks. In CI always the same examples; with
TEST_STATEFUL_EXAMPLES in the environment that many new ones.
"""

import os

from hypothesis import HealthCheck, settings
from machine import AllocatorMachine, examples

EXAMPLES, STEPS = 80, 40

AllocatorMachine.TestCase.settings = settings(
    max_examples=examples(EXAMPLES),
    stateful_step_count=STEPS,
    derandomize="TEST_STATEFUL_EXAMPLES" not in os.environ,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
TestAllocator = AllocatorMachine.TestCase
