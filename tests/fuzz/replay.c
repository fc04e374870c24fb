/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Fuzzing: a main for a target without a fuzzer: runs files, and all files of folders, through it.
 * `make test` runs the kept corpus so, with every compiler and sanitizer.
 *
 * Ends with status 1 when a file cannot be read or none was given: a test that has run nothing has
 * not passed. */
#include "fuzz.h"

#include <dirent.h>
#include <limits.h>

static unsigned replayed;

static void replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(1);
    }
    long size = ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(size > 0 ? (size_t)size : 1); /* not a byte more: for the sanitizer */
    if (size < 0 || bytes == NULL || fread(bytes, 1, (size_t)size, file) != (size_t)size) {
        perror(path);
        exit(1);
    }
    (void)fclose(file);
    (void)fprintf(stderr, "%s\n", path); /* what it was, if the next line tells of a failure */
    LLVMFuzzerTestOneInput(bytes, (size_t)size);
    free(bytes);
    replayed++;
}

static int replay_is_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void replay_path(const char *path)
{
    struct dirent **entries;
    int count = scandir(path, &entries, replay_is_file, alphasort);
    if (count < 0) {
        replay_file(path);
        return;
    }
    for (int i = 0; i < count; i++) {
        char name[PATH_MAX];
        (void)snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        replay_file(name);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay_path(argv[i]);
    printf("%u inputs replayed\n", replayed);
    return replayed > 0 ? 0 : 1;
}
