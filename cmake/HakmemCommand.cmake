# The `hakmem` command: target hakmem_command, file <build>/hakmem. A program of its own that needs nothing
# but libc; not built under a sanitizer, where there is no library for it to preload.
# It gets HAKMEM_VERSION ("0.1.0") and HAKMEM_LIBDIR_FROM_BINDIR ("../lib": where the installed library is,
# seen from the installed command; an installation can be moved as a whole).
#
# SPDX-License-Identifier: Apache-2.0 OR MIT

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cmd/hakmem/*.c")
if(NOT sources OR HAKMEM_SANITIZED)
    return()
endif()

file(RELATIVE_PATH libdir_from_bindir "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")

# It reads other processes' records with the allocator's own layers, which are part of it for that: see
# cmd/hakmem/image.h. Its own memory is libc's.
list(APPEND sources "${PROJECT_SOURCE_DIR}/src/api/snapshot.c")

add_executable(hakmem_command ${sources})
target_link_libraries(hakmem_command PRIVATE hakmem_test_flags hak_policy_lib)
target_include_directories(hakmem_command PRIVATE
    "${PROJECT_SOURCE_DIR}/cmd/hakmem" "${PROJECT_SOURCE_DIR}/src")
target_compile_options(hakmem_command PRIVATE -Wconversion -Wmissing-prototypes)
target_compile_definitions(hakmem_command PRIVATE
    HAKMEM_VERSION="${PROJECT_VERSION}"
    HAKMEM_LIBDIR_FROM_BINDIR="${libdir_from_bindir}")
set_target_properties(hakmem_command PROPERTIES
    OUTPUT_NAME hakmem
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
add_dependencies(hakmem_products hakmem_command)
