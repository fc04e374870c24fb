# Toolchain file: Debian's compiler with musl as its C library (musl-tools). A distribution that is made of musl, like
# Alpine, needs none. See tests/musl.
#
# There is no C++ library beside it, so that of C++ sources only the operators are compiled, which take none; and no
# cmocka, for which tests/musl/cmocka.h stands.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER g++)

# The kernel's headers, and systemtap's, which musl-gcc does not look for where Debian has them.
set(headers "${CMAKE_BINARY_DIR}/kernel-headers")
foreach(header linux asm-generic x86_64-linux-gnu/asm x86_64-linux-gnu/sys/sdt.h x86_64-linux-gnu/sys/sdt-config.h)
    string(REPLACE "x86_64-linux-gnu/" "" place "${header}")
    cmake_path(GET place PARENT_PATH folder)
    file(MAKE_DIRECTORY "${headers}/${folder}")
    file(CREATE_LINK "/usr/include/${header}" "${headers}/${place}" SYMBOLIC)
endforeach()
file(CREATE_LINK "${CMAKE_CURRENT_LIST_DIR}/../tests/musl/cmocka.h" "${headers}/cmocka.h" SYMBOLIC)
set(CMAKE_C_FLAGS_INIT "-idirafter ${headers}")

# What compilers tell the linker, and musl-gcc does not: tables for call stacks, and what names a file for good.
foreach(kind EXE SHARED MODULE)
    set(CMAKE_${kind}_LINKER_FLAGS_INIT "-Wl,--eh-frame-hdr,--build-id")
endforeach()

set(HAKMEM_HAS_CXX_LIBRARY OFF CACHE BOOL "C++ programs can be linked")
set(HAKMEM_CMOCKA_INCLUDE "${headers}" CACHE PATH "where cmocka.h is")
set(HAKMEM_CMOCKA_LIBRARY m CACHE STRING "a header that needs no library stands for cmocka")
