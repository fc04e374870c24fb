/* Conformance support: is this text a well-formed XML element? See xml.h.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "xml.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { XML_DEPTH = 32, XML_NAME = 64 };

struct xml {
    const char *at;
    unsigned depth;
    char open[XML_DEPTH][XML_NAME];
};

static void xml_space(struct xml *x)
{
    while (isspace((unsigned char)*x->at))
        x->at++;
}

static bool xml_name(struct xml *x, char *name)
{
    size_t n = 0;
    while ((isalnum((unsigned char)*x->at) || strchr("_-.:", *x->at)) && *x->at && n < XML_NAME - 1)
        name[n++] = *x->at++;
    name[n] = 0;
    return n > 0;
}

static const char *xml_attributes(struct xml *x)
{
    char name[XML_NAME];
    for (;;) {
        xml_space(x);
        if (*x->at == '>' || *x->at == '/')
            return NULL;
        if (!xml_name(x, name) || *x->at++ != '=' || *x->at++ != '"')
            return "a bad attribute";
        while (*x->at && *x->at != '"' && *x->at != '<')
            x->at++;
        if (*x->at++ != '"')
            return "an attribute without an end";
    }
}

static const char *xml_tag(struct xml *x)
{
    char name[XML_NAME];
    bool closes = *x->at == '/';
    x->at += closes;
    if (!xml_name(x, name))
        return "a tag without a name";
    if (closes) {
        if (!x->depth || strcmp(x->open[x->depth - 1], name) != 0)
            return "an end tag that nothing began";
        x->depth--;
        return *x->at++ == '>' ? NULL : "an end tag without an end";
    }
    const char *wrong = xml_attributes(x);
    if (wrong)
        return wrong;
    if (*x->at == '/') {
        x->at++;
    } else {
        if (x->depth == XML_DEPTH)
            return "too many levels";
        memcpy(x->open[x->depth++], name, sizeof name);
    }
    return *x->at++ == '>' ? NULL : "a tag without an end";
}

const char *xml_check(const char *text, const char *root)
{
    struct xml x = {.at = text};
    xml_space(&x);
    if (*x.at != '<' || strncmp(x.at + 1, root, strlen(root)) != 0)
        return "another root";
    do {
        if (*x.at == '&' || *x.at == '>')
            return "a character that must be an entity";
        if (*x.at++ != '<')
            continue;
        const char *wrong = xml_tag(&x);
        if (wrong)
            return wrong;
    } while (x.depth && *x.at);
    if (x.depth)
        return "an element without an end";
    xml_space(&x);
    return *x.at ? "text after the end" : NULL;
}

size_t xml_number(const char *text, const char *prefix)
{
    size_t largest = 0;
    for (const char *p = strstr(text, prefix); p; p = strstr(p + 1, prefix)) {
        size_t n = strtoul(p + strlen(prefix), NULL, 10);
        largest = n > largest ? n : largest;
    }
    return largest;
}
