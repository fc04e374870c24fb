# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem bench: benchmark programs under several allocators, interleaved, and what they show.

    places, allocators, machine, measure    what is there, and one measured run: standard library
                                            only, so that bench/demo.py can use them without set-up
    suite, real                             what is measured
    runner                                  rounds, checks, the result (a dict, see docs/bench-format.md)
    stats, summary, comparison              what a result says
    table, html, docs                       the terminal, the page, the document
    cli                                     the command

Importing this imports nothing.
"""
