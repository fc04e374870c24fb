/* Conformance support: is this text a well-formed XML element?
 *
 * Enough XML for malloc_info: elements, attributes in double quotes, text without entities.
 *
 * Called by tests. Never allocates.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_XML_H
#define HAK_TEST_XML_H

#include <stddef.h>

/* NULL if the text is one element of that name and nothing else, or what is wrong. */
const char *xml_check(const char *text, const char *root);

/* The largest number that follows the prefix anywhere in the text; 0 if there is none. */
size_t xml_number(const char *text, const char *prefix);

#endif
