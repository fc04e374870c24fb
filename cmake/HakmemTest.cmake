# Tests. What a folder of tests (tests/conformance, tests/stress, tests/programs, tests/command, bench)
# finds in its CMakeLists.txt:
#
# Targets
#   hakmem_shared  hakmem_static      the libraries that replace malloc; absent under a sanitizer
#   hakmem_prefixed_shared            hakmem_malloc and so on only; always there
#   hakmem_prefixed_static
#   hakmem_hardened_shared            the hardened variant; absent under a sanitizer
#   hakmem_hardened_tests             the same as a static library with prefixed names, for tests; in no default build
#   hakmem_command                    the `hakmem` command; absent under a sanitizer
#   hakmem_test_flags                 link it PRIVATE: warnings, include/hakmem.h, HAK_CHECKS, _GNU_SOURCE
#   hakmem_flags                      the same and the stricter flags of src/, with src/ as include folder
#   hak_<layer>_lib                   a layer and those below it, for unit tests
#
# Variables
#   HAKMEM_SANITIZED                  ON in the presets asan and tsan: only the prefixed libraries exist
#   HAKMEM_CHECKS                     ON in the presets debug and asan
#
# Functions
#   hakmem_preload_test(NAME name COMMAND program [args...] [TIMEOUT seconds] [COST n] [LABELS label...])
#       A test that runs a program under libhakmem.so of this build (LD_PRELOAD, set for that program only,
#       not for ctest's own processes). The program may be a target. Not registered under a sanitizer.
#       With HARDENED it is libhakmem-hardened.so, and the label `hardened` is added.
#   hakmem_test(NAME name COMMAND program [args...] [TIMEOUT seconds] [COST n] [LABELS label...])
#       The same without LD_PRELOAD, in all presets. Tests with the highest COST are begun first.
#
# tests/conformance, tests/stress and tests/unit are added in all presets, and tests/fuzz where libc is glibc; tests/programs,
# tests/command, tests/stateful, tests/gates and bench only where libhakmem.so exists. Unit tests need no
# CMakeLists.txt: every tests/unit/<layer>/test_<name>.c becomes the program and the test
# unit_<layer>_<name>. From space upwards they get the fake of the os layer (tests/support/fake_os.c), which takes the place of the functions that
# tests/support/wrap.txt names (the linker's --wrap).
#
# SPDX-License-Identifier: Apache-2.0 OR MIT

function(hakmem_test)
    cmake_parse_arguments(arg "PRELOAD;HARDENED" "NAME;TIMEOUT;COST" "COMMAND;LABELS" ${ARGN})
    if(NOT arg_NAME OR NOT arg_COMMAND OR arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR
            "hakmem_test and hakmem_preload_test need NAME and COMMAND, and know TIMEOUT, COST and LABELS. "
            "Got: ${ARGN}")
    endif()
    if(arg_PRELOAD)
        list(POP_FRONT arg_COMMAND program)
        if(TARGET "${program}")
            set(program "$<TARGET_FILE:${program}>")
        endif()
        set(library hakmem_shared)
        if(arg_HARDENED)
            set(library hakmem_hardened_shared)
            list(APPEND arg_LABELS hardened)
        endif()
        list(PREPEND arg_COMMAND env "LD_PRELOAD=$<TARGET_FILE:${library}>" "${program}")
    endif()
    add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND})
    if(arg_TIMEOUT)
        set_tests_properties(${arg_NAME} PROPERTIES TIMEOUT ${arg_TIMEOUT})
    endif()
    if(arg_COST)
        set_tests_properties(${arg_NAME} PROPERTIES COST ${arg_COST})
    endif()
    if(arg_LABELS)
        set_tests_properties(${arg_NAME} PROPERTIES LABELS "${arg_LABELS}")
    endif()
endfunction()

function(hakmem_preload_test)
    if(TARGET hakmem_shared)
        hakmem_test(PRELOAD ${ARGN})
    endif()
endfunction()

function(hakmem_missing_test_tool what package)
    set(level STATUS)
    if(HAKMEM_REQUIRE_TEST_TOOLS)
        set(level FATAL_ERROR)
    endif()
    message(${level} "hakmem: ${what} not found, so some tests are left out (tools/setup-test.sh "
        "installs it; Debian package ${package})")
endfunction()

if(HAKMEM_TESTS)
    add_library(hakmem_hardened_tests STATIC EXCLUDE_FROM_ALL
        "$<TARGET_OBJECTS:hak_hardened>" "$<TARGET_OBJECTS:hak_api_hardened_prefixed>")
    set_target_properties(hakmem_hardened_tests PROPERTIES LINKER_LANGUAGE C)
endif()

function(hakmem_add_unit_test layer source)
    cmake_path(GET source STEM name)
    string(REGEX REPLACE "^test_" "unit_${layer}_" target "${name}")
    add_executable(${target} "${source}")
    target_include_directories(${target} PRIVATE
        "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests/support")
    target_link_libraries(${target} PRIVATE hakmem_test_flags)
    if(TARGET hak_fake_os AND NOT layer MATCHES "^(base|os)$")
        target_link_libraries(${target} PRIVATE hak_fake_os)
    endif()
    target_link_libraries(${target} PRIVATE hak_${layer}_lib "${HAKMEM_CMOCKA_LIBRARY}" m)
    hakmem_test(NAME ${target} COMMAND ${target} TIMEOUT 300 LABELS unit)
endfunction()

function(hakmem_add_fake_os)
    set(source "${PROJECT_SOURCE_DIR}/tests/support/fake_os.c")
    set(wrapped "${PROJECT_SOURCE_DIR}/tests/support/wrap.txt")
    if(NOT EXISTS "${source}" OR NOT EXISTS "${wrapped}")
        return()
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${wrapped}")
    file(STRINGS "${wrapped}" names REGEX "^[a-z_0-9]+$")
    list(TRANSFORM names PREPEND "LINKER:--wrap=")
    add_library(hak_fake_os OBJECT "${source}")
    target_include_directories(hak_fake_os PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_include_directories(hak_fake_os PUBLIC "${PROJECT_SOURCE_DIR}/tests/support")
    target_link_libraries(hak_fake_os PRIVATE hakmem_test_flags)
    target_link_options(hak_fake_os INTERFACE ${names})
endfunction()

function(hakmem_add_unit_tests)
    find_library(HAKMEM_CMOCKA_LIBRARY cmocka)
    find_path(HAKMEM_CMOCKA_INCLUDE cmocka.h)
    if(NOT HAKMEM_CMOCKA_LIBRARY OR NOT HAKMEM_CMOCKA_INCLUDE)
        hakmem_missing_test_tool(cmocka libcmocka-dev)
        return()
    endif()
    hakmem_add_fake_os()
    foreach(layer IN LISTS HAKMEM_PRESENT_LAYERS)
        file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/unit/${layer}/test_*.c")
        foreach(source IN LISTS sources)
            hakmem_add_unit_test(${layer} "${source}")
        endforeach()
    endforeach()
endfunction()

function(hakmem_add_test_folders)
    foreach(folder IN LISTS ARGN)
        if(EXISTS "${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt")
            add_subdirectory("${PROJECT_SOURCE_DIR}/${folder}" "${PROJECT_BINARY_DIR}/${folder}")
        endif()
    endforeach()
endfunction()

# ThreadSanitizer's runtime in gcc 12 stops where the kernel randomises more address bits than it knows
# of; without randomisation it always starts. Only programs run as tests are concerned.
if(HAKMEM_SANITIZE MATCHES "thread")
    execute_process(COMMAND setarch -R true RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
        set(CMAKE_CROSSCOMPILING_EMULATOR setarch -R)
    endif()
endif()

if(HAKMEM_TESTS)
    enable_testing()
    hakmem_add_unit_tests()
    if(TARGET hakmem_prefixed_shared)
        hakmem_add_test_folders(tests/conformance tests/stress)
    endif()
    if(TARGET hakmem_prefixed_shared AND HAKMEM_GLIBC)
        hakmem_add_test_folders(tests/fuzz tests/policy)
    endif()
    if(TARGET hakmem_shared AND HAKMEM_GLIBC)
        hakmem_add_test_folders(
            tests/profile tests/faults tests/programs tests/command tests/stateful tests/sched tests/sites tests/gdb bench
            tests/emulated tests/vm python)
    elseif(TARGET hakmem_shared)
        hakmem_add_test_folders(bench tests/musl)
    endif()
    if(NOT HAKMEM_SANITIZED AND HAKMEM_GLIBC)
        hakmem_add_test_folders(tests/gates)
    endif()
endif()
