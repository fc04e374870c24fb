/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: cache_server. Stresses what a start-up leaves behind: a server reads RECORDS records
 * in batches. Of each record it keeps a key and a value (16 to 256 bytes, a call site each) in a
 * cache; the tokens and buffers of parsing, ten times as many, live until the batch is done. Then
 * it serves REQUESTS requests out of the cache with some temporary blocks each, paced, so that its
 * life is mostly serving. What parsing took should not stay pinned by what was kept.
 *
 * Checksum: sizes and contents that were kept and served. It never starts a thread.
 */
#include "bench.h"

#define BATCH_RECORDS 40000u
#define TOKENS 10u
#define REQUESTS_A_PAUSE 100u
#define REQUEST_BLOCKS 10u

struct entry {
    unsigned char *key, *value;
};

static uint32_t size_between(uint64_t *random, uint32_t least, uint32_t most)
{
    return least + (uint32_t)bench_below(bench_random(random), most - least + 1);
}

__attribute__((noinline)) static unsigned char *key_new(uint64_t *random)
{
    return bench_block_new(size_between(random, 16, 64));
}

__attribute__((noinline)) static unsigned char *value_new(uint64_t *random)
{
    return bench_block_new(size_between(random, 32, 256));
}

__attribute__((noinline)) static unsigned char *token_new(uint64_t *random)
{
    return bench_block_new(size_between(random, 16, 128));
}

__attribute__((noinline)) static unsigned char *buffer_new(uint64_t *random)
{
    return bench_block_new(size_between(random, 64, 512));
}

static uint64_t block_end(unsigned char *block)
{
    uint64_t size = bench_block_check(block);
    free(block);
    return size;
}

static uint64_t cache_load(struct entry *cache, size_t records, uint64_t *random)
{
    static unsigned char *parsed[BATCH_RECORDS * TOKENS];
    uint64_t checksum = 0;
    for (size_t done = 0; done < records;) {
        size_t used = 0;
        for (size_t i = 0; i < BATCH_RECORDS && done < records; i++, done++) {
            for (unsigned t = 0; t < TOKENS; t++)
                parsed[used++] = t % 4 == 3 ? buffer_new(random) : token_new(random);
            cache[done] = (struct entry){key_new(random), value_new(random)};
        }
        while (used != 0)
            checksum += block_end(parsed[--used]);
    }
    return checksum;
}

static uint64_t cache_serve(const struct entry *cache, size_t records, uint64_t requests,
                            uint64_t *random, uint64_t *work_ns)
{
    uint64_t checksum = 0;
    for (uint64_t n = 0; n < requests;) {
        uint64_t begin = bench_now_ns();
        for (unsigned i = 0; i < REQUESTS_A_PAUSE && n < requests; i++, n++) {
            unsigned char *work[REQUEST_BLOCKS];
            const struct entry *e = &cache[bench_below(bench_random(random), records)];
            for (unsigned k = 0; k < REQUEST_BLOCKS; k++)
                work[k] = token_new(random);
            checksum = bench_mix(checksum, bench_block_check(e->key) + bench_block_check(e->value));
            for (unsigned k = 0; k < REQUEST_BLOCKS; k++)
                checksum += block_end(work[k]);
        }
        checksum = bench_mix(checksum, bench_request(n));
        *work_ns += bench_now_ns() - begin;
        bench_sleep_ms(5);
    }
    return checksum;
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 2, 2, "cache_server RECORDS REQUESTS");
    size_t records = bench_number(argc, argv, 1, "RECORDS", 1, UINT32_MAX);
    uint64_t requests = bench_number(argc, argv, 2, "REQUESTS", 1, UINT32_MAX);
    struct entry *cache = calloc(records, sizeof *cache);
    if (cache == NULL)
        bench_die(3, "no memory for %zu entries: give fewer RECORDS", records);
    uint64_t random = bench_seed(11, 0), live = records * sizeof *cache;
    uint64_t begin = bench_now_ns();
    uint64_t checksum = cache_load(cache, records, &random);
    uint64_t work_ns = bench_now_ns() - begin;
    uint64_t loaded_rss = bench_rss_kb();
    checksum = bench_mix(checksum, cache_serve(cache, records, requests, &random, &work_ns));
    uint64_t served_rss = bench_rss_kb();
    for (size_t i = 0; i < records; i++) {
        uint64_t bytes = block_end(cache[i].key) + block_end(cache[i].value);
        checksum = bench_mix(checksum, bytes);
        live += bytes;
    }
    free(cache);
    bench_report("cache_server", records + requests, work_ns, checksum);
    bench_metric("cache_server", "rss_loaded", (double)loaded_rss, "kB");
    bench_metric("cache_server", "rss_served", (double)served_rss, "kB");
    bench_metric("cache_server", "rss_per_live_percent",
                 100.0 * (double)served_rss * (double)BENCH_KIB / (double)live, "percent");
    bench_work_freed("cache_server");
    return 0;
}
