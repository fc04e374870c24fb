# The layers of src/, bottom to top. A layer that has no folder yet is skipped. For each layer:
#   hak_<layer>      OBJECT library: what the products are made of
#   hak_<layer>_lib  the same objects as a STATIC library that links the layers below it and nothing else,
#                    for unit tests: what a layer needs from above it stays undefined there
# src/api is compiled in variants:
#   hak_api               HAK_INTERPOSE=1: with malloc and the rest of the family (not under a sanitizer)
#   hak_api_prefixed      HAK_INTERPOSE=0: hakmem_malloc and so on only; hak_api_lib is made of this one
#   hak_operators_weak    operators.cc for the shared library: does not need libstdc++
#   hak_operators_strong  operators.cc for the static library
#   hak_deepbind          for the shared libraries that replace malloc
# The hardened library is compiled of the same sources with HAK_HARDENED=1, and of src/hard and a few more:
#   hak_hardened          all layers below api
#   hak_api_hardened, hak_api_hardened_prefixed, hak_operators_hardened  as above; the prefixed one is for tests
#
# SPDX-License-Identifier: Apache-2.0 OR MIT

set(HAKMEM_LAYERS base os space slab pool large cache telemetry policy heap hard api)

# Sources of the hardened library only.
set(HAKMEM_HARDENED_SOURCES os/guard_linux.c os/operators_linux.c os/random.c api/operators_hardened.c)
list(TRANSFORM HAKMEM_HARDENED_SOURCES PREPEND "${PROJECT_SOURCE_DIR}/src/")
# Of the two shared libraries that replace malloc only: takes the place of a function of the loader.
set(HAKMEM_SHARED_ONLY_SOURCES "${PROJECT_SOURCE_DIR}/src/api/deepbind.c")

function(hakmem_object_library target)
    cmake_parse_arguments(arg "" "" "SOURCES;DEFINITIONS" ${ARGN})
    add_library(${target} OBJECT ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE hakmem_flags)
    target_compile_definitions(${target} PRIVATE ${arg_DEFINITIONS})
endfunction()

set(HAKMEM_LOWER_OBJECTS)   # the objects of all layers below api, as generator expressions
set(HAKMEM_LAYER_OBJECTS_MANIFEST "") # one line a layer: its name and objects, for the link gate
set(HAKMEM_PRESENT_LAYERS)
set(api_sources)
set(hardened_sources)
set(below)

foreach(layer IN LISTS HAKMEM_LAYERS)
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${layer}/*.c")
    if(layer STREQUAL "api")
        list(REMOVE_ITEM sources ${HAKMEM_SHARED_ONLY_SOURCES})
        set(api_sources ${sources})
    else()
        list(APPEND hardened_sources ${sources})
    endif()
    if(layer STREQUAL "hard")
        continue()
    endif()
    list(REMOVE_ITEM sources ${HAKMEM_HARDENED_SOURCES})
    file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${layer}/*.h")
    if(NOT sources AND NOT headers)
        continue()
    endif()
    list(APPEND HAKMEM_PRESENT_LAYERS ${layer})

    set(objects "hak_${layer}")
    if(layer STREQUAL "api" AND sources)
        hakmem_object_library(hak_api_prefixed SOURCES ${sources} DEFINITIONS HAK_INTERPOSE=0)
        target_compile_options(hak_api_prefixed PRIVATE ${HAKMEM_API_FLAGS})
        set(objects hak_api_prefixed)
        if(NOT HAKMEM_SANITIZED)
            hakmem_object_library(hak_api SOURCES ${sources} DEFINITIONS HAK_INTERPOSE=1)
            target_compile_options(hak_api PRIVATE ${HAKMEM_API_FLAGS})
        endif()
    elseif(sources)
        hakmem_object_library(hak_${layer} SOURCES ${sources})
        list(APPEND HAKMEM_LOWER_OBJECTS "$<TARGET_OBJECTS:hak_${layer}>")
    endif()

    if(sources)
        add_library(hak_${layer}_lib STATIC "$<TARGET_OBJECTS:${objects}>")
        set_target_properties(hak_${layer}_lib PROPERTIES LINKER_LANGUAGE C)
        string(APPEND HAKMEM_LAYER_OBJECTS_MANIFEST "${layer};$<TARGET_OBJECTS:${objects}>\n")
    else()
        add_library(hak_${layer}_lib INTERFACE)
    endif()
    target_link_libraries(hak_${layer}_lib INTERFACE ${below})
    set(below hak_${layer}_lib)
endforeach()

# The hardened variant: all sources once more. hak_hard_lib is for unit tests.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
    set_source_files_properties("${PROJECT_SOURCE_DIR}/src/hard/paths_avx2.c" PROPERTIES
        COMPILE_OPTIONS "-mavx2;-mbmi;-mbmi2")
else()
    list(REMOVE_ITEM hardened_sources "${PROJECT_SOURCE_DIR}/src/hard/paths_avx2.c")
endif()
hakmem_object_library(hak_hardened SOURCES ${hardened_sources} DEFINITIONS HAK_HARDENED=1)
add_library(hak_hard_lib STATIC "$<TARGET_OBJECTS:hak_hardened>")
set_target_properties(hak_hard_lib PROPERTIES LINKER_LANGUAGE C)
target_compile_definitions(hak_hard_lib INTERFACE HAK_HARDENED=1)
list(APPEND HAKMEM_PRESENT_LAYERS hard)
hakmem_object_library(hak_api_hardened_prefixed
    SOURCES ${api_sources} DEFINITIONS HAK_HARDENED=1 HAK_INTERPOSE=0)
target_compile_options(hak_api_hardened_prefixed PRIVATE ${HAKMEM_API_FLAGS})
if(NOT HAKMEM_SANITIZED)
    hakmem_object_library(hak_api_hardened
        SOURCES ${api_sources} DEFINITIONS HAK_HARDENED=1 HAK_INTERPOSE=1)
    target_compile_options(hak_api_hardened PRIVATE ${HAKMEM_API_FLAGS})
endif()

if(NOT HAKMEM_SANITIZED)
    hakmem_object_library(hak_deepbind
        SOURCES ${HAKMEM_SHARED_ONLY_SOURCES} DEFINITIONS HAK_INTERPOSE=1)
    # Its call of the loader has to be a tail call in the debug build too.
    target_compile_options(hak_deepbind PRIVATE ${HAKMEM_API_FLAGS} -foptimize-sibling-calls)
endif()

set(hakmem_operators "${PROJECT_SOURCE_DIR}/src/api/operators.cc")
if(EXISTS "${hakmem_operators}" AND NOT HAKMEM_SANITIZED)
    # What an operator calls may be the program's; for the others of our functions that is excluded.
    set_source_files_properties("${hakmem_operators}" PROPERTIES COMPILE_OPTIONS -fsemantic-interposition)
    foreach(variant weak strong)
        set(weak $<STREQUAL:${variant},weak>)
        hakmem_object_library(hak_operators_${variant}
            SOURCES "${hakmem_operators}"
            DEFINITIONS HAK_INTERPOSE=1 HAK_CXX_WEAK=${weak})
        target_compile_options(hak_operators_${variant} PRIVATE ${HAKMEM_API_FLAGS} -fexceptions)
    endforeach()
    hakmem_object_library(hak_operators_hardened
        SOURCES "${hakmem_operators}"
        DEFINITIONS HAK_INTERPOSE=1 HAK_CXX_WEAK=1 HAK_HARDENED=1)
    target_compile_options(hak_operators_hardened PRIVATE
        ${HAKMEM_API_FLAGS} -fexceptions -fno-rtti -fno-plt)
    # The strong one keeps RTTI: without it the compiler would emit libstdc++'s type information of
    # std::bad_alloc into our archive instead of referring to it.
    # Operators that call another one call the one that the program has, straight from the table.
    target_compile_options(hak_operators_weak PRIVATE -fno-rtti -fno-plt)
endif()

file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/layer-objects-$<CONFIG>.txt"
    CONTENT "${HAKMEM_LAYER_OBJECTS_MANIFEST}")
# The same of the hardened library, whose lower layers are one.
set(hakmem_hardened_objects "$<TARGET_OBJECTS:hak_hardened>")
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/layer-objects-hardened-$<CONFIG>.txt" CONTENT
"below hard;$<FILTER:${hakmem_hardened_objects},EXCLUDE,/src/hard/>
hard;$<FILTER:${hakmem_hardened_objects},INCLUDE,/src/hard/>
api;$<TARGET_OBJECTS:hak_api_hardened_prefixed>
")
