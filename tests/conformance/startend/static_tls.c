/* Conformance, start and end: a library whose thread-local data must lie in the static block, of
 * which the loader keeps a little for libraries that come late.
 *
 * Loaded by libraries.c, many times. STATIC_TLS_BYTES says how much it takes.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */

extern __thread char static_tls_data[STATIC_TLS_BYTES];
__thread char static_tls_data[STATIC_TLS_BYTES]
    __attribute__((tls_model("initial-exec"), aligned(8)));

char *static_tls_use(void);

char *static_tls_use(void)
{
    return static_tls_data;
}
