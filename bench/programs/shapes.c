/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: shapes. Ways of using memory in which an allocator may hold many times what the
 * program uses: tables of which a few pages are written, aligned blocks, blocks that shrink, sizes
 * that drift, threads that want little. `shapes list` names them and says what each does.
 *
 * The metric live_peak is what any allocator has to hold at the peak: the bytes of live blocks,
 * where those are written whole, and else the pages of them that were written; and the list of
 * blocks. Checksum: the sizes of all blocks, and of each that is freed or resized the ends are
 * checked.
 */
#include "bench.h"

#define BLOCKS (UINT32_C(1) << 21)

/* In the program's own memory, so that no allocator has to hold it. */
static struct {
    unsigned char *at; /* NULL: none */
    size_t bytes;
} block[BLOCKS];

static uint64_t random_state;
static size_t held, held_most; /* bytes that must be in memory */
static uint32_t used;          /* of the list */
static uint64_t checksum, operations;

static size_t below(size_t limit)
{
    return bench_below(bench_random(&random_state), limit);
}

static void hold(size_t bytes)
{
    held += bytes;
    if (held > held_most)
        held_most = held;
}

/* A block at a place of the list, which was empty. align: 0, or a power of two. */
static void place(uint32_t i, size_t bytes, size_t align, bool zeroed)
{
    void *p = NULL;
    if (zeroed)
        p = calloc(1, bytes);
    else if (align == 0)
        p = malloc(bytes);
    else if (posix_memalign(&p, align, bytes) != 0)
        p = NULL;
    if (p == NULL)
        bench_die(3, "no memory for a block of %zu bytes", bytes);
    block[i].at = p;
    block[i].bytes = bytes;
    if (i >= used) {
        hold((i + 1 - used) * sizeof block[0]);
        used = i + 1;
    }
    checksum = bench_mix(checksum, bytes);
    operations++;
}

static void write_whole(uint32_t i)
{
    memset(block[i].at, (int)(block[i].bytes & 0x7F) + 1, block[i].bytes);
    hold(block[i].bytes);
}

static void check(uint32_t i, size_t bytes)
{
    unsigned char value = (unsigned char)((block[i].bytes & 0x7F) + 1);
    if (block[i].at[0] != value || block[i].at[bytes - 1] != value)
        bench_die(1, "block %u of %zu bytes was overwritten", i, block[i].bytes);
}

static void place_whole(uint32_t i, size_t bytes)
{
    place(i, bytes, 0, false);
    write_whole(i);
}

/* One that was written whole. */
static void drop(uint32_t i)
{
    check(i, block[i].bytes);
    held -= block[i].bytes;
    free(block[i].at);
    block[i].at = NULL;
    operations++;
}

static void resize_whole(uint32_t i, size_t bytes)
{
    size_t before = block[i].bytes;
    unsigned char *p = realloc(block[i].at, bytes);
    if (p == NULL)
        bench_die(3, "realloc to %zu bytes failed", bytes);
    block[i].at = p;
    check(i, before < bytes ? before : bytes);
    held -= before;
    block[i].bytes = bytes;
    write_whole(i);
    operations++;
}

static void write_page(uint32_t i, size_t page)
{
    block[i].at[page * BENCH_PAGE_BYTES] = 1;
    hold(BENCH_PAGE_BYTES);
}

/* One of each of so many equal parts. */
static void write_pages_at_random(uint32_t i, unsigned pages)
{
    size_t part = block[i].bytes / BENCH_PAGE_BYTES / pages;
    for (unsigned n = 0; n < pages; n++)
        write_page(i, n * part + below(part));
}

/* ---- tables of which little is used ---- */

static void sparse_table(void)
{
    place(0, (size_t)1 << 30, 0, false);
    write_pages_at_random(0, 1000);
}

static void sparse_after_dense(void)
{
    for (uint32_t i = 0; i < 6; i++)
        place_whole(i, 10 * BENCH_MIB + 12345);
    for (uint32_t i = 6; i < 10; i++) {
        place(i, (size_t)1 << 30, 0, false);
        write_pages_at_random(i, 1000);
    }
}

static void sparse_tables(void)
{
    for (uint32_t i = 0; i < 20; i++) {
        place(i, 64 * BENCH_MIB, 0, false);
        write_pages_at_random(i, 100);
    }
}

static void first_pages(uint32_t blocks, size_t least, size_t most, bool zeroed)
{
    for (uint32_t i = 0; i < blocks; i++) {
        place(i, least + below(most - least + 1), 0, zeroed);
        write_page(i, 0);
    }
}

/* The same program writes some of its blocks whole, and of others of the same sizes little. */
static void sparse_mid_after_dense(void)
{
    enum { WHOLE = 1000, ALL = 5000 };
    for (uint32_t i = 0; i < ALL; i++) {
        place(i, 40000 + below(26001), 0, false);
        if (i < WHOLE)
            write_whole(i);
        else
            write_page(i, 0);
    }
}

static void sparse_zeroed(void)
{
    first_pages(200, 3000000, 3000000, true);
}

static void sparse_large(void)
{
    first_pages(2000, 600000, 1000000, false);
}

static void sparse_mid(void)
{
    first_pages(8000, 40000, 80000, false);
}

/* ---- alignment ---- */

static void aligned_pages(void)
{
    for (uint32_t i = 0; i < 20000; i++) {
        place(i, BENCH_PAGE_BYTES, BENCH_PAGE_BYTES, false);
        write_whole(i);
    }
}

/* A page each: no two can share one. */
static void far_apart(uint32_t blocks, size_t align)
{
    for (uint32_t i = 0; i < blocks; i++) {
        place(i, 100, align, false);
        write_page(i, 0);
    }
}

static void aligned_64k(void)
{
    far_apart(1000, 64 * BENCH_KIB);
}

static void aligned_2m(void)
{
    far_apart(200, 2 * BENCH_MIB);
}

/* ---- sizes ---- */

static void just_over(void)
{
    uint32_t i = 0;
    for (size_t bytes = 4096; bytes <= 256 * BENCH_KIB; bytes *= 2)
        for (size_t all = 0; all < 16 * BENCH_MIB; all += bytes, i++)
            place_whole(i, bytes + 1);
}

static void every_size(void)
{
    for (uint32_t i = 0; i < 2048; i++)
        place_whole(i, (i + 1) * 16);
}

static void doubled(void)
{
    size_t room = 24 * BENCH_MIB;
    uint32_t end = 0;
    for (size_t bytes = 16; bytes <= 16 * BENCH_KIB; bytes *= 2) {
        uint32_t begin = end;
        for (; room >= bytes; room -= bytes, end++)
            place_whole(end, bytes);
        for (uint32_t i = begin; i < end; i += 2) {
            room += bytes;
            drop(i);
        }
    }
}

static void drift(void)
{
    const size_t most = 40 * BENCH_MIB;
    size_t live = 0;
    for (uint32_t step = 0; step < 6000000; step++) {
        uint32_t i = (uint32_t)below(40000);
        size_t bytes = 1 + below(2 * (64 + step / 1000));
        if (block[i].at != NULL) {
            live -= block[i].bytes;
            drop(i);
        }
        if (live + bytes <= most) {
            live += bytes;
            place_whole(i, bytes);
        }
    }
}

static void cache_epochs(void)
{
    enum { PLACES = 300000, EPOCH = 300000 };
    const size_t most = 50 * BENCH_MIB;
    size_t live = 0;
    uint32_t oldest = 0;
    for (uint32_t step = 0; step < 10 * EPOCH; step++) {
        bool small = step / EPOCH % 2 != 0;
        size_t bytes = small ? 200 + below(400) : 2000 + below(6000);
        place_whole(step % PLACES, bytes);
        for (live += bytes; live > most; oldest = (oldest + 1) % PLACES) {
            live -= block[oldest].bytes;
            drop(oldest);
        }
    }
}

static void two_ages(void)
{
    enum { KEPT = 200000, SHORT = 8 };
    for (uint32_t i = 0; i < KEPT; i++) {
        uint32_t passing = KEPT + i % SHORT;
        place_whole(i, 100);
        if (i >= SHORT)
            drop(passing);
        place_whole(passing, 20000 + below(60000));
    }
}

/* ---- blocks that grow and shrink ---- */

static void growing(void)
{
    enum { VECTORS = 2000, TURNS = 14, BYTES_MOST = 200000 };
    for (uint32_t i = 0; i < VECTORS; i++)
        place_whole(i, 16);
    for (unsigned turn = 0; turn < TURNS; turn++)
        for (uint32_t i = 0; i < VECTORS; i++)
            if (below(8) != 0 && block[i].bytes < BYTES_MOST)
                resize_whole(i, block[i].bytes * 2);
}

static void shrunk(void)
{
    for (uint32_t i = 0; i < 3000; i++) {
        place_whole(i, 200000);
        resize_whole(i, 100 + below(3000));
    }
}

static void shrunk_huge(void)
{
    for (uint32_t i = 0; i < 100; i++) {
        place_whole(i, 8 * BENCH_MIB);
        resize_whole(i, 100000);
    }
}

/* ---- threads ---- */

enum { THREADS = 200, THREAD_BLOCKS = 40 };
static pthread_barrier_t all_have_theirs;

static size_t thread_block_bytes(unsigned i)
{
    return 16 + i * i * (size_t)4;
}

static void *thread_main(void *arg)
{
    unsigned char *own[THREAD_BLOCKS];
    (void)arg;
    for (unsigned i = 0; i < THREAD_BLOCKS; i++)
        own[i] = bench_block_new((uint32_t)thread_block_bytes(i));
    pthread_barrier_wait(&all_have_theirs);
    pthread_barrier_wait(&all_have_theirs);
    for (unsigned i = 0; i < THREAD_BLOCKS; i++) {
        bench_block_check(own[i]);
        free(own[i]);
    }
    return NULL;
}

static void many_threads(void)
{
    pthread_t thread[THREADS];
    pthread_barrier_init(&all_have_theirs, NULL, THREADS + 1);
    for (unsigned t = 0; t < THREADS; t++)
        thread[t] = bench_thread_start(thread_main, NULL, 64 * BENCH_KIB);
    pthread_barrier_wait(&all_have_theirs);
    for (unsigned i = 0; i < THREAD_BLOCKS; i++) {
        hold(THREADS * thread_block_bytes(i));
        checksum = bench_mix(checksum, thread_block_bytes(i));
    }
    pthread_barrier_wait(&all_have_theirs);
    for (unsigned t = 0; t < THREADS; t++)
        pthread_join(thread[t], NULL);
    pthread_barrier_destroy(&all_have_theirs);
    operations += THREADS * 2 * THREAD_BLOCKS;
}

static const struct {
    const char *name;
    void (*run)(void);
    const char *what;
} shapes[] = {
    {"sparse_table", sparse_table, "one block of 1 GiB, of which 1,000 pages are written"},
    {"sparse_after_dense", sparse_after_dense,
     "six blocks of 10 MiB, written whole, then four of 1 GiB, of which 1,000 pages each are "
     "written"},
    {"sparse_tables", sparse_tables, "20 blocks of 64 MiB, of which 100 pages each are written"},
    {"sparse_zeroed", sparse_zeroed,
     "200 blocks of 3 MB from calloc, of which the first page is written"},
    {"sparse_large", sparse_large,
     "2,000 blocks of 0.6 to 1 MB, of which the first page is written"},
    {"sparse_mid", sparse_mid, "8,000 blocks of 40 to 80 kB, of which the first page is written"},
    {"sparse_mid_after_dense", sparse_mid_after_dense,
     "1,000 blocks of 40 to 66 kB, written whole, then 4,000, of which the first page is written"},
    {"aligned_pages", aligned_pages, "20,000 pages, each aligned to a page"},
    {"aligned_64k", aligned_64k, "1,000 blocks of 100 bytes, aligned to 64 KiB"},
    {"aligned_2m", aligned_2m, "200 blocks of 100 bytes, aligned to 2 MiB"},
    {"just_over", just_over,
     "16 MiB of blocks of each power of two from 4 to 256 KiB and one byte more"},
    {"every_size", every_size, "one block of each multiple of 16 bytes up to 32 KiB"},
    {"doubled", doubled,
     "24 MiB of blocks of 16 bytes; every second is freed for blocks twice as long, of which every "
     "second is freed, and so on up to 16 KiB"},
    {"drift", drift,
     "40 MiB of blocks that are freed at random, while sizes drift from 64 bytes to 6 kB on "
     "average"},
    {"cache_epochs", cache_epochs,
     "a cache of 50 MiB that gives up the oldest, of blocks of 2 to 8 kB, then of 200 to 600 "
     "bytes, in turns"},
    {"two_ages", two_ages,
     "200,000 blocks of 100 bytes that stay, and between each two one of 20 to 80 kB that goes"},
    {"growing", growing, "2,000 blocks that grow by doubling, in turns, from 16 bytes on"},
    {"shrunk", shrunk, "3,000 blocks of 200 kB that become 100 to 3,100 bytes"},
    {"shrunk_huge", shrunk_huge, "100 blocks of 8 MiB that become 100 kB"},
    {"many_threads", many_threads, "200 threads that have 40 blocks each, of as many sizes"},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static void list(void)
{
    for (size_t i = 0; i < SHAPES; i++)
        printf("%s: %s\n", shapes[i].name, shapes[i].what);
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 1, 1, "shapes NAME, or shapes list");
    if (strcmp(argv[1], "list") == 0) {
        list();
        return 0;
    }
    size_t chosen = 0;
    while (chosen < SHAPES && strcmp(argv[1], shapes[chosen].name) != 0)
        chosen++;
    if (chosen == SHAPES)
        bench_die(2, "%s: there is no shape '%s'; `shapes list` names them", argv[0], argv[1]);
    random_state = bench_seed(42, chosen);
    uint64_t begin = bench_now_ns();
    shapes[chosen].run();
    bench_report("shapes", operations, bench_now_ns() - begin, checksum);
    bench_live_peak("shapes", held_most);
    return 0;
}
