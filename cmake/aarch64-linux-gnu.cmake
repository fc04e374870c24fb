# Toolchain file: Debian's cross compilers for aarch64 (g++-aarch64-linux-gnu). See tests/emulated.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT

set(CMAKE_SYSTEM_PROCESSOR aarch64)
include("${CMAKE_CURRENT_LIST_DIR}/debian-cross.cmake")
