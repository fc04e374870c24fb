# cmake, ninja and make: a project of sixteen libraries, configured and built by both.
{
    echo 'cmake_minimum_required(VERSION 3.20)'
    echo 'project(work C)'
    echo 'foreach(i RANGE 1 16)'
    echo '  string(REPEAT "x${i}" 50 text)'
    echo '  file(WRITE "${CMAKE_BINARY_DIR}/u${i}.c" "int f${i}(void) { return ${i}; }\n")'
    echo '  add_library(u${i} STATIC "${CMAKE_BINARY_DIR}/u${i}.c")'
    echo '  list(APPEND all u${i})'
    echo 'endforeach()'
    echo 'file(WRITE "${CMAKE_BINARY_DIR}/m.c" "int f7(void); int main(void) { return f7() != 7; }\n")'
    echo 'add_executable(m "${CMAKE_BINARY_DIR}/m.c")'
    echo 'target_link_libraries(m ${all})'
} > CMakeLists.txt
cmake -S . -B ninja -G Ninja > /dev/null
ninja -C ninja -j 2 > /dev/null
./ninja/m && ninja -C ninja | tail -n 1
ninja -C ninja -t graph | wc -l
cmake -S . -B make -G 'Unix Makefiles' > /dev/null
make -C make -j 2 > /dev/null 2>&1
./make/m && make -C make | grep -c Built
