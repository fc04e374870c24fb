/* Conformance: under valgrind, which puts its own functions in the place of malloc, free and the
 * operators (and of no reallocarray), blocks of all kinds go back to who gave them. Valgrind says
 * so if one does not.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

struct alignas(64) wide {
    char text[200];
};

int main()
{
    std::vector<std::string> names; // some of it is in the C++ library
    for (int i = 0; i < 1000; i++)
        names.push_back("a name that is too long to be within the object, " + std::to_string(i));
    std::vector<std::unique_ptr<wide>> alone;
    std::vector<std::unique_ptr<wide[]>> arrays;
    for (int i = 0; i < 100; i++) {
        alone.push_back(std::make_unique<wide>());
        arrays.push_back(std::make_unique<wide[]>(3));
        delete new (std::nothrow) int(i);
        delete[] new (std::nothrow) int[3]();
        std::free(std::realloc(std::malloc(100), 5000));
        std::free(reallocarray(std::malloc(100), 50, 100));
    }
    return names[999].size() == 52 ? 0 : 1;
}
