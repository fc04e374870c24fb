# clang: a C++ file with much of the standard library and C files, at two levels, and a link.
clang++-19 -std=c++17 -O2 -c containers.cc -o containers.o
clang++-19 containers.o -o containers -pthread
clang-19 -O3 -S larson.c -o larson.s
clang-19 -O0 -g -fsyntax-only -Wall larson.c
sha256sum larson.s
./containers
