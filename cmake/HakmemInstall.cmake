# Installation: libraries, header, command, man pages, pkg-config file, CMake package. PREFIX and DESTDIR
# are those of `cmake --install`; everything installed finds its neighbours by relative paths.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT

if(HAKMEM_SANITIZED OR NOT TARGET hakmem_shared)
    return()
endif()
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/hakmem")

install(TARGETS
    hakmem_shared hakmem_static hakmem_prefixed_shared hakmem_prefixed_static hakmem_hardened_shared
    EXPORT hakmemTargets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT hakmemTargets NAMESPACE hakmem:: DESTINATION "${package_dir}")
install(FILES include/hakmem.h include/hakmem.hpp DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
if(TARGET hakmem_command)
    install(TARGETS hakmem_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    install(TARGETS hakmem_record LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/hakmem")
endif()

# gdb looks for a script below its auto-load folder by the full name of each library that it loads; the prefix is that of
# the installation, which may be another than that of the build. Some distributions give absolute folders.
set(gdb_dir "${CMAKE_INSTALL_LIBDIR}")
if(NOT IS_ABSOLUTE "${gdb_dir}")
    set(gdb_dir "\${CMAKE_INSTALL_PREFIX}/${gdb_dir}")
endif()
set(gdb_dir "${CMAKE_INSTALL_DATADIR}/gdb/auto-load${gdb_dir}")
foreach(name hakmem hakmem-prefixed hakmem-hardened)
    install(FILES tools/gdb/hakmem-gdb.py
        DESTINATION "${gdb_dir}"
        RENAME "lib${name}.so.${PROJECT_VERSION}-gdb.py")
endforeach()
install(FILES tools/gdb/hakmem_gdb_records.py
    DESTINATION "${gdb_dir}")

if(EXISTS "${PROJECT_SOURCE_DIR}/cmd/hakmem/completion.bash")
    install(FILES cmd/hakmem/completion.bash
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME hakmem)
endif()

foreach(section 1 3 5 7)
    file(GLOB pages CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/man/*.${section}")
    if(pages)
        install(FILES ${pages} DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}")
    endif()
endforeach()

configure_package_config_file(cmake/hakmemConfig.cmake.in "${PROJECT_BINARY_DIR}/hakmemConfig.cmake"
    INSTALL_DESTINATION "${package_dir}"
    NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/hakmemConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/hakmemConfig.cmake"
    "${PROJECT_BINARY_DIR}/hakmemConfigVersion.cmake"
    DESTINATION "${package_dir}")

file(RELATIVE_PATH HAKMEM_PREFIX_FROM_PCDIR
    "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
foreach(dir LIBDIR INCLUDEDIR)
    set(HAKMEM_PC_${dir} "${CMAKE_INSTALL_${dir}}")
    if(NOT IS_ABSOLUTE "${HAKMEM_PC_${dir}}")
        set(HAKMEM_PC_${dir} "\${prefix}/${HAKMEM_PC_${dir}}")
    endif()
endforeach()
configure_file(cmake/hakmem.pc.in "${PROJECT_BINARY_DIR}/hakmem.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/hakmem.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
