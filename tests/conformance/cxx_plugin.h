/* Conformance: what cxx_plugin.cpp, a C++ library that is loaded at run time, has for programs.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#pragma once

/* The ways to ask for more memory than there is. */
enum plugin_way {
    PLUGIN_NEW,
    PLUGIN_NEW_ARRAY,
    PLUGIN_ALIGNED_NEW,
    PLUGIN_VECTOR,
    PLUGIN_NOTHROW, /* from here on those that return NULL */
    PLUGIN_ARRAY_NOTHROW,
    PLUGIN_ALIGNED_NOTHROW,
    PLUGIN_ALIGNED_ARRAY_NOTHROW,
    PLUGIN_WAYS
};

/* What the handler that is called then does. */
enum plugin_handler { PLUGIN_NO_HANDLER, PLUGIN_GIVES_UP, PLUGIN_THROWS };

enum plugin_end { PLUGIN_BAD_ALLOC, PLUGIN_NULL, PLUGIN_MEMORY };

typedef enum plugin_end plugin_fail_fn(enum plugin_way way, enum plugin_handler handler,
                                       int *calls);
