/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: files of /proc and /sys, see system.h. */
#include "system.h"

#include "util.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *system_root = "";

void hak_system_set_root(const char *folder)
{
    system_root = folder;
}

static char *system_path(const char *path)
{
    return hak_format("%s%s", system_root, path);
}

FILE *hak_system_open(const char *path)
{
    char *full = system_path(path);
    FILE *file = fopen(full, "re");
    free(full);
    return file;
}

char *hak_system_text(const char *path)
{
    char text[8192];
    FILE *file = hak_system_open(path);
    if (file == NULL)
        return NULL;
    size_t length = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[length] = '\0';
    if (length > 0 && text[length - 1] == '\n')
        text[length - 1] = '\0';
    return hak_format("%s", text);
}

uint64_t hak_system_number(const char *path)
{
    uint64_t number = UINT64_MAX;
    FILE *file = hak_system_open(path);
    if (file == NULL)
        return number;
    if (fscanf(file, "%" SCNu64, &number) != 1)
        number = UINT64_MAX;
    (void)fclose(file);
    return number;
}

uint64_t hak_system_line(const char *path, const char *name)
{
    char line[512];
    uint64_t kib, found = UINT64_MAX;
    size_t length = strlen(name);
    FILE *file = hak_system_open(path);
    while (file != NULL && found == UINT64_MAX && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, length) == 0 && line[length] == ':' &&
            sscanf(line + length + 1, "%" SCNu64, &kib) == 1)
            found = kib * 1024;
    if (file != NULL)
        (void)fclose(file);
    return found;
}

uint64_t hak_system_limit(const char *folder, const char *name)
{
    char line[256];
    uint64_t limit = UINT64_MAX;
    char *path = hak_format("%s/limits", folder);
    FILE *file = hak_system_open(path);
    free(path);
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (hak_starts_with(line, name) && sscanf(line + strlen(name), "%" SCNu64, &limit) != 1)
            limit = UINT64_MAX;
    if (file != NULL)
        (void)fclose(file);
    return limit;
}

uint64_t hak_system_meminfo(const char *name)
{
    return hak_system_line("/proc/meminfo", name);
}

bool hak_system_exists(const char *path)
{
    char *full = system_path(path);
    bool exists = access(full, F_OK) == 0;
    free(full);
    return exists;
}

char *hak_system_link(const char *path)
{
    char target[4096];
    char *full = system_path(path);
    ssize_t length = readlink(full, target, sizeof target - 1);
    free(full);
    return length < 0 ? NULL : hak_format("%.*s", (int)length, target);
}
