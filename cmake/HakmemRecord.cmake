# libhakmem-record.so, which `hakmem record` preloads: it has nothing of the allocator in it, and is no library to link
# with. Target hakmem_record.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT

if(NOT TARGET hakmem_command)
    return()
endif()

add_library(hakmem_record MODULE cmd/record/recorder.c)
target_link_libraries(hakmem_record PRIVATE hakmem_test_flags ${CMAKE_DL_LIBS})
target_compile_definitions(hakmem_record PRIVATE HAKMEM_VERSION="${PROJECT_VERSION}")
target_compile_options(hakmem_record PRIVATE -Wconversion -fvisibility=hidden ${HAKMEM_API_FLAGS})
target_link_options(hakmem_record PRIVATE "LINKER:-z,now,-z,relro,-z,nodelete,--no-undefined")
set_target_properties(hakmem_record PROPERTIES
    OUTPUT_NAME hakmem-record
    LINKER_LANGUAGE C
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
add_dependencies(hakmem_products hakmem_record)
