/* Conformance: a C++ library that is loaded with RTLD_DEEPBIND finds the C++ runtime's own
 * operators new and delete; objects go back and forth between it and the program.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cstddef>
#include <dlfcn.h>
#include <string>
#include <vector>

extern "C" {
#include "conformance/support/child.h"
#include "conformance/support/cmocka_all.h"
}

namespace
{

using strings = std::vector<std::string>;

void objects_are_exchanged(void **)
{
    void *plugin =
        dlopen(child_beside("libconformance_cxx_plugin.so"), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    assert_non_null(plugin);
    auto *make = reinterpret_cast<strings *(*)(std::size_t)>(dlsym(plugin, "plugin_make"));
    auto *drop = reinterpret_cast<void (*)(strings *)>(dlsym(plugin, "plugin_drop"));
    assert_non_null(make);
    assert_non_null(drop);
    for (std::size_t bytes : {40U, 1000U, 100000U}) {
        strings *theirs = make(bytes);
        theirs->push_back(theirs->front());
        assert_int_equal(theirs->back().size(), bytes);
        delete theirs;
        drop(new strings(10, std::string(bytes, 'y')));
    }
}

} // namespace

int main()
{
    const CMUnitTest tests[] = {cmocka_unit_test(objects_are_exchanged)};
    return RUN_TESTS(tests);
}
