# The products: libhakmem.so, libhakmem.a, the prefixed pair and libhakmem-hardened.so. Under a sanitizer only the prefixed pair.
#   hakmem_shared  hakmem_static  hakmem_prefixed_shared  hakmem_prefixed_static
#   hakmem_hardened_shared
#   hakmem_products  builds all there are, and the command
#
# SPDX-License-Identifier: Apache-2.0 OR MIT

add_custom_target(hakmem_products)

function(hakmem_describe_product target output_name)
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME ${output_name}
        LINKER_LANGUAGE C
        LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
        ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
    target_include_directories(${target} INTERFACE
        "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
        "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    add_dependencies(hakmem_products ${target})
endfunction()

# Linked by the C driver, so that neither libstdc++ nor libgcc_s becomes a dependency. The compiler's
# defaults for C++ sources would add them.
set(CMAKE_CXX_IMPLICIT_LINK_LIBRARIES "")

# nodelete: threads that end later, and the background thread, run its code after a dlclose.
function(hakmem_shared_library target output_name map)
    add_library(${target} SHARED ${ARGN})
    hakmem_describe_product(${target} ${output_name})
    set_target_properties(${target} PROPERTIES
        VERSION ${PROJECT_VERSION}
        SOVERSION ${PROJECT_VERSION_MAJOR}
        LINK_DEPENDS "${map};${PROJECT_SOURCE_DIR}/cmake/operators.list")
    target_link_options(${target} PRIVATE
        "LINKER:-z,now,-z,relro,-z,nodelete,-Bsymbolic-functions,--no-undefined,--exclude-libs,ALL"
        "LINKER:--dynamic-list=${PROJECT_SOURCE_DIR}/cmake/operators.list"
        "LINKER:--version-script=${map}")
endfunction()

# An archive of one relocatable object in which hidden symbols have become local: nothing internal leaks out
# of it. One has to be global: the section that <sys/sdt.h> measures addresses from is kept once, which may be the
# program's, and then a local symbol of ours has no place. `EXTRA` is an object that becomes a member of its own, linked
# only into programs that need it. Both go in as files that CMake knows no language of: a C program that links the archive
# is linked as C.
function(hakmem_static_library target output_name)
    cmake_parse_arguments(arg "" "EXTRA" "OBJECTS" ${ARGN})
    set(members "${PROJECT_BINARY_DIR}/${target}.o")
    add_custom_command(OUTPUT "${members}"
        COMMAND "${CMAKE_LINKER}" -r -o "${members}" ${arg_OBJECTS}
        COMMAND "${CMAKE_OBJCOPY}" --localize-hidden "${members}"
        COMMAND "${CMAKE_OBJCOPY}" --globalize-symbol=_.stapsdt.base "${members}"
        DEPENDS ${arg_OBJECTS}
        COMMENT "Merging ${target}"
        COMMAND_EXPAND_LISTS VERBATIM)
    if(arg_EXTRA)
        set(extra "${PROJECT_BINARY_DIR}/${target}_operators.o")
        add_custom_command(OUTPUT "${extra}"
            COMMAND "${CMAKE_COMMAND}" -E copy "${arg_EXTRA}" "${extra}"
            DEPENDS "${arg_EXTRA}"
            VERBATIM)
        list(APPEND members "${extra}")
    endif()
    set_source_files_properties(${members} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    add_library(${target} STATIC ${members})
    # make, unlike ninja, has no rule for files of other targets: those have to be there before.
    string(REGEX MATCHALL "hak_[a-z_]+" compiled "${arg_OBJECTS};${arg_EXTRA}")
    add_dependencies(${target} ${compiled})
    hakmem_describe_product(${target} ${output_name})
    # As above, for a plugin that it is linked into. In programs this does nothing.
    target_link_options(${target} INTERFACE "LINKER:-z,nodelete")
endfunction()

if(TARGET hak_api_prefixed)
    set(objects ${HAKMEM_LOWER_OBJECTS} "$<TARGET_OBJECTS:hak_api_prefixed>")
    hakmem_shared_library(hakmem_prefixed_shared hakmem-prefixed
        "${PROJECT_SOURCE_DIR}/cmake/hakmem-prefixed.map" ${objects})
    hakmem_static_library(hakmem_prefixed_static hakmem-prefixed OBJECTS ${objects})
    add_library(hakmem::prefixed ALIAS hakmem_prefixed_shared)
    add_library(hakmem::prefixed_static ALIAS hakmem_prefixed_static)
    set_target_properties(hakmem_prefixed_shared PROPERTIES EXPORT_NAME prefixed)
    set_target_properties(hakmem_prefixed_static PROPERTIES EXPORT_NAME prefixed_static)
endif()

if(TARGET hak_api)
    set(objects ${HAKMEM_LOWER_OBJECTS} "$<TARGET_OBJECTS:hak_api>")
    set(operators_weak)
    set(operators_strong)
    if(TARGET hak_operators_weak)
        set(operators_weak "$<TARGET_OBJECTS:hak_operators_weak>")
        set(operators_strong "$<TARGET_OBJECTS:hak_operators_strong>")
    endif()
    hakmem_shared_library(hakmem_shared hakmem
        "${PROJECT_SOURCE_DIR}/cmake/hakmem.map" ${objects} ${operators_weak}
        "$<TARGET_OBJECTS:hak_deepbind>")
    set(layout "${PROJECT_SOURCE_DIR}/cmake/layout.ld")
    # Constants lie beside code, so that there are two mappings and not four: each costs every start
    # of a program 4 us. The hardened library has them where they cannot be run.
    target_link_options(hakmem_shared PRIVATE "LINKER:-T,${layout},-z,noseparate-code")
    set_property(TARGET hakmem_shared APPEND PROPERTY LINK_DEPENDS "${layout}")
    hakmem_static_library(hakmem_static hakmem OBJECTS ${objects} EXTRA ${operators_strong})
    # A program whose own objects never name malloc still gets the archive's.
    # Programs linked with -static have no unwind table unless the linker is told: for the heap profile.
    target_link_options(hakmem_static INTERFACE "LINKER:--undefined=malloc,--eh-frame-hdr")
    add_library(hakmem::hakmem ALIAS hakmem_shared)
    add_library(hakmem::static ALIAS hakmem_static)
    set_target_properties(hakmem_shared PROPERTIES EXPORT_NAME hakmem)
    set_target_properties(hakmem_static PROPERTIES EXPORT_NAME static)
    hakmem_shared_library(hakmem_hardened_shared hakmem-hardened
        "${PROJECT_SOURCE_DIR}/cmake/hakmem.map"
        "$<TARGET_OBJECTS:hak_hardened>" "$<TARGET_OBJECTS:hak_api_hardened>"
        "$<TARGET_OBJECTS:hak_operators_hardened>" "$<TARGET_OBJECTS:hak_deepbind>")
    add_library(hakmem::hardened ALIAS hakmem_hardened_shared)
    set_target_properties(hakmem_hardened_shared PROPERTIES EXPORT_NAME hardened)
elseif(NOT HAKMEM_SANITIZED)
    message(STATUS "hakmem: src/api has no sources, so there is no library to build")
endif()
