/* Conformance, start and end: many libraries, and the library itself where nobody expects it.
 *
 *   500 libraries with thread-local data of their own
 *   libhakmem.so loaded by dlopen into a program that has another malloc, also when there is no
 *   room for its thread-local pointer
 *   a library loaded with RTLD_DEEPBIND: its blocks and the program's go back and forth
 *
 * Run with the library preloaded; its path is taken from LD_PRELOAD. The plugins lie beside this
 * program, and are copied: the loader tells libraries apart by their files.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "conformance/startend/busy.h"
#include "conformance/support/child.h"
#include "conformance/support/cmocka_all.h"

enum { LIBRARIES = 500, THREADS = 3, NO_ROOM = 3 };

typedef void *take_fn(size_t size);
typedef void give_fn(void *p);
typedef void *resize_fn(void *p, size_t size);
typedef void *malloc_fn(size_t size);

static char folder[] = "/tmp/hakmem-libraries-XXXXXX";

/* ---- copies of a library ---- */

static const char *copy_name(unsigned number)
{
    static char path[sizeof folder + 32];
    snprintf(path, sizeof path, "%s/lib%u.so", folder, number);
    return path;
}

static void copy(const char *from_path, unsigned number)
{
    struct stat size;
    int from = open(from_path, O_RDONLY | O_CLOEXEC);
    int to = open(copy_name(number), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    busy_require(from >= 0 && to >= 0 && fstat(from, &size) == 0 &&
                     sendfile(to, from, NULL, (size_t)size.st_size) == size.st_size,
                 "copying a library");
    close(from);
    close(to);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    for (unsigned i = 0; i < LIBRARIES; i++)
        unlink(copy_name(i));
    return rmdir(folder);
}

/* ---- 500 libraries ---- */

static take_fn *takes[LIBRARIES];

static void *take_from_all(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < LIBRARIES; i++) {
        void *p = takes[i](100 + i); /* touches the library's thread-local data */
        if (!p || !pattern_holds(p, 100 + i, 1))
            return "a block from a library";
        my_free(p);
    }
    return NULL;
}

static void five_hundred_libraries_with_thread_local_data(void **state)
{
    (void)state;
    static void *handles[LIBRARIES];
    for (unsigned i = 0; i < LIBRARIES; i++) {
        copy(child_beside("libstartend_plugin.so"), i);
        handles[i] = dlopen(copy_name(i), RTLD_NOW | RTLD_LOCAL);
        CHECK(handles[i], "library %u: %s", i, dlerror());
        takes[i] = (take_fn *)dlsym(handles[i], "plugin_take");
        assert_non_null(takes[i]);
        assert_true(i == 0 || takes[i] != takes[i - 1]);
    }
    pthread_t threads[THREADS];
    for (int round = 0; round < 3; round++) {
        void *wrong = NULL;
        for (size_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, take_from_all, NULL), 0);
        for (size_t i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], &wrong), 0);
            assert_null(wrong);
        }
    }
    for (unsigned i = 0; i < LIBRARIES; i++)
        assert_int_equal(dlclose(handles[i]), 0);
    assert_true(busy_sizes(KIB(64)));
}

/* ---- libhakmem.so by dlopen: cases in a process without it ---- */

static void *from_library(void *library_malloc)
{
    malloc_fn *take = (malloc_fn *)library_malloc;
    for (size_t i = 1; i < 2000; i++) {
        unsigned char *p = take(i);
        busy_require(p != NULL, "a block of the loaded library");
        pattern_fill(p, i, i);
        busy_require(pattern_holds(p, i, i), "a block of the loaded library");
    }
    return NULL;
}

static int load_by_hand(const char *path)
{
    malloc_fn *before = (malloc_fn *)dlsym(RTLD_DEFAULT, "malloc");
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        return NO_ROOM;
    }
    void *take = dlsym(handle, "malloc");
    give_fn *give = (give_fn *)dlsym(handle, "free");
    busy_require(take && give && (malloc_fn *)take != before, "a malloc of its own");
    pthread_t thread;
    from_library(take);
    busy_require(!pthread_create(&thread, NULL, from_library, take) && !pthread_join(thread, NULL),
                 "a thread");
    give(((malloc_fn *)take)(100));
    busy_require(busy_sizes(KIB(64)) && busy_churn(1000, 1), "the program's own malloc");
    busy_require(dlclose(handle) == 0 && busy_churn(1000, 1), "closing it");
    return 0;
}

/* Libraries with thread-local data that must be in the static block, until there is no room. */
static int load_by_hand_without_room(const char *path)
{
    static const char *const names[] = {"libstartend_static_tls_64.so",
                                        "libstartend_static_tls_8.so"};
    unsigned number = 0;
    busy_require(mkdtemp(folder) != NULL, "a folder");
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        bool loaded = true;
        while (loaded && number < LIBRARIES) {
            copy(child_beside(names[i]), number);
            loaded = dlopen(copy_name(number), RTLD_NOW | RTLD_LOCAL) != NULL;
            unlink(copy_name(number++));
        }
        busy_require(!loaded, "filling the static block");
    }
    rmdir(folder);
    int status = load_by_hand(path);
    busy_require(busy_sizes(KIB(64)), "the program's own malloc");
    return status;
}

static void without_preload(void *unused)
{
    (void)unused;
    unsetenv("LD_PRELOAD");
    setenv("HAK_TEST_ANY_ALLOCATOR", "1", 1);
}

static struct child child;

static void run_case(const char *name)
{
    char path[4096] = "";
    snprintf(path, sizeof path, "%s", getenv("LD_PRELOAD"));
    path[strcspn(path, ": ")] = 0;
    char *argv[] = {(char *)child_self(), (char *)name, path, NULL};
    child.argv = argv;
    child.setup = without_preload;
    assert_true(child_run(&child));
}

static void the_library_may_be_loaded_by_dlopen(void **state)
{
    (void)state;
    run_case("--load");
    CHECK(child_exited(&child, 0) && child.err_bytes == 0, "%s", child_describe(&child));
}

static void without_room_dlopen_says_so(void **state)
{
    (void)state;
    run_case("--load-without-room");
    CHECK(child_exited(&child, NO_ROOM), "%s", child_describe(&child));
    CHECK(strstr(child.err, "static TLS"), "%s", child_describe(&child));
}

/* ---- RTLD_DEEPBIND ---- */

static void *handle_of_plugin(int mode)
{
    /* Beside this program, in whose own search path it is: the loader has to see who calls. */
    void *handle = dlopen("libstartend_plugin.so", mode);
    busy_require(handle != NULL, "dlopen");
    return handle;
}

/* libc's own blocks are still passed on to it. */
static void free_a_block_of_libc(void)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    malloc_fn *its_malloc = (malloc_fn *)dlsym(libc, "__libc_malloc");
    busy_require(its_malloc != NULL, "dlsym");
    void *p = its_malloc(100);
    memset(p, 1, 100);
    my_free(p);
}

/* Without help the library's own calls would mean libc's malloc. */
static int deepbind(const char *unused)
{
    (void)unused;
    void *handle = handle_of_plugin(RTLD_NOW | RTLD_DEEPBIND);
    take_fn *take = (take_fn *)dlsym(handle, "plugin_take");
    give_fn *give = (give_fn *)dlsym(handle, "plugin_give");
    resize_fn *resize = (resize_fn *)dlsym(handle, "plugin_resize");
    for (size_t i = 0; i < COUNT_OF(range_sizes); i++) {
        size_t size = range_sizes[i];
        my_free(take(size));
        give(my_malloc(size));
        void *p = my_realloc(take(size), size + 1000);
        busy_require(p && pattern_holds(p, size, 1), "the library's block, resized by the program");
        give(p);
        p = my_malloc(size);
        pattern_fill(p, size, 3);
        p = resize(p, size * 2 + 1);
        busy_require(p && pattern_holds(p, size, 3), "the program's block, resized by the library");
        busy_require(my_malloc_usable_size(p) > size, "its usable size");
        my_free(p);
    }
    free_a_block_of_libc();
    busy_require(dlclose(handle) == 0 && busy_sizes(KIB(64)), "work afterwards");
    return 0;
}

static void libraries_that_bind_deeply(void **state)
{
    (void)state;
    char *argv[] = {(char *)child_self(), "--deepbind", "", NULL};
    child.argv = argv;
    child.setup = NULL;
    assert_true(child_run(&child));
    CHECK(child_exited(&child, 0) && child.err_bytes == 0, "%s", child_describe(&child));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const char *path);
    } cases[] = {{"--load", load_by_hand},
                 {"--load-without-room", load_by_hand_without_room},
                 {"--deepbind", deepbind}};
    for (size_t i = 0; i < COUNT_OF(cases) && argc == 3; i++)
        if (strcmp(argv[1], cases[i].name) == 0)
            return cases[i].run(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(five_hundred_libraries_with_thread_local_data, make_folder,
                                        remove_folder),
        cmocka_unit_test(the_library_may_be_loaded_by_dlopen),
        cmocka_unit_test(without_room_dlopen_says_so),
        cmocka_unit_test(libraries_that_bind_deeply),
    };
    return RUN_TESTS(tests);
}
