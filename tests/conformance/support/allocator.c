/* Conformance support: which allocator is being tested. See allocator.h.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "allocator.h"

#include <stdio.h>
#include <unistd.h>

#include "support/api.h"

bool allocator_may_be_other(void)
{
    return getenv("HAK_TEST_ANY_ALLOCATOR") != NULL && !my_api_is_hakmem();
}

void allocator_require(void)
{
    if (my_api_is_hakmem() || getenv("HAK_TEST_ANY_ALLOCATOR"))
        return;
    dprintf(STDERR_FILENO,
            "this test runs without hakmem: start it with LD_PRELOAD=.../libhakmem.so, "
            "or set HAK_TEST_ANY_ALLOCATOR=1 to test another allocator\n");
    _exit(1);
}

bool allocator_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return true;
#else
    return false;
#endif
#else
    return false;
#endif
}
