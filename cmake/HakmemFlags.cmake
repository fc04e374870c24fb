# Compiler flags. Two interface targets:
#   hakmem_flags       for everything under src/: what ends up in the library
#   hakmem_test_flags  for tests, benchmarks and the command: ordinary programs, a little less strict
#
# SPDX-License-Identifier: Apache-2.0 OR MIT

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_UNITY_BUILD OFF) # as a project around this one may have it: constants of one file have the names of another's

# True where a sanitizer brings its own malloc: only the prefixed library exists there.
set(HAKMEM_SANITIZED OFF)
if(NOT HAKMEM_SANITIZE STREQUAL "")
    set(HAKMEM_SANITIZED ON)
    add_compile_options(
        "-fsanitize=${HAKMEM_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options("-fsanitize=${HAKMEM_SANITIZE}")
endif()

if(HAKMEM_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()

add_library(hakmem_test_flags INTERFACE)
target_compile_definitions(hakmem_test_flags INTERFACE
    _GNU_SOURCE
    HAK_CHECKS=$<BOOL:${HAKMEM_CHECKS}>)
target_compile_options(hakmem_test_flags INTERFACE
    -Wall -Wextra -Wshadow
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
    $<$<BOOL:${HAKMEM_WERROR}>:-Werror>
    # Whatever CFLAGS say (those of Ubuntu's packages do): an archive's objects are merged and have symbols made local, the
    # operators of C++ are linked without its library, and tests put functions in the place of others.
    -fno-lto)
target_include_directories(hakmem_test_flags INTERFACE "${PROJECT_SOURCE_DIR}/include")

add_library(hakmem_flags INTERFACE)
target_link_libraries(hakmem_flags INTERFACE hakmem_test_flags)
target_include_directories(hakmem_flags INTERFACE "${PROJECT_SOURCE_DIR}/src")
target_compile_options(hakmem_flags INTERFACE
    -Wconversion
    $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
    -fPIC -fvisibility=hidden -ftls-model=initial-exec
    -fno-semantic-interposition -fno-math-errno -ffunction-sections
    # The heap profile's stacks begin here. Everywhere but on riscv64 it is so by itself.
    -fasynchronous-unwind-tables
    # valgrind 3.19, which Debian 12 has, stops at clang's DWARF 5.
    $<$<C_COMPILER_ID:Clang>:-gdwarf-4>)

# Without these the compiler, which knows what malloc means, would turn malloc followed by memset into a
# call of calloc, inside calloc too, and drop pairs of calls.
set(HAKMEM_API_FLAGS)
foreach(name
        malloc calloc realloc free aligned_alloc memalign posix_memalign valloc pvalloc reallocarray
        malloc_usable_size free_sized free_aligned_sized cfree)
    list(APPEND HAKMEM_API_FLAGS "-fno-builtin-${name}")
endforeach()

# Skylake and its kin decode a jump that crosses a line of 32 bytes anew each time (Intel, "Mitigations
# for Jump Conditional Code Erratum", 2019). None does where malloc and free are; in all of the library the code would grow
# by 5 KiB more and gain nothing.
include(CheckCCompilerFlag)
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
    set(aligned_branches -mbranches-within-32B-boundaries)
else()
    set(aligned_branches -Wa,-mbranches-within-32B-boundaries)
endif()
check_c_compiler_flag(${aligned_branches} HAKMEM_HAS_ALIGNED_BRANCHES)
if(HAKMEM_HAS_ALIGNED_BRANCHES)
    list(APPEND HAKMEM_API_FLAGS ${aligned_branches})
endif()

# Other libcs (musl) have no mallinfo, mallopt, RTLD_DEEPBIND; what is about those is left out there.
include(CheckSymbolExists)
check_symbol_exists(__GLIBC__ features.h HAKMEM_GLIBC)

# Probes for tracers (src/os/probes.h): a nop and a note each.
# Not check_include_file, which would remember for good that it was not there.
find_path(HAKMEM_SDT_INCLUDE sys/sdt.h)
if(HAKMEM_SDT_INCLUDE)
    target_compile_definitions(hakmem_flags INTERFACE HAK_PROBES=1)
else()
    message(STATUS "hakmem: <sys/sdt.h> not found, so the library has no probes for tracers (Debian package "
        "systemtap-sdt-dev)")
endif()
