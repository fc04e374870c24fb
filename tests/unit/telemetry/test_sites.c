/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of telemetry: the table of call sites, samples of lifetimes, and the rules made of
 * them. */
#include "../unit.h"

#include "telemetry/telemetry.h"

#include <dlfcn.h>
#include <link.h>
#include <semaphore.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static struct hak_heap *start(void)
{
    hak_classes_start();
    MUST(hak_space_start() == 0);
    MUST(hak_cache_start() == 0);
    struct hak_heap *heap = hak_cache_thread_start();
    MUST(heap != NULL);
    return heap;
}

static void a_site_keeps_its_entry(void **state)
{
    (void)state;
    struct hak_site *entry[400];
    for (uintptr_t i = 0; i < UNIT_COUNT(entry); i++) {
        entry[i] = hak_site_find(0x400000 + i * 7);
        CHECK(entry[i] != NULL, "%lu", i);
    }
    for (uintptr_t i = 0; i < UNIT_COUNT(entry); i++) {
        assert_ptr_equal(hak_site_find(0x400000 + i * 7), entry[i]);
        assert_int_equal(hak_load_relaxed(&entry[i]->address), 0x400000 + i * 7);
        assert_int_equal(hak_site_group(0x400000 + i * 7), HAK_GROUP_SHORT);
    }
    assert_null(hak_site_find(0));
}

static void a_full_table_knows_no_more_sites(void **state)
{
    (void)state;
    unsigned found = 0;
    for (uintptr_t i = 1; i <= 8 * HAK_SITES; i++)
        found += hak_site_find(i * 0x1000) != NULL;
    assert_int_equal(found, HAK_SITES);
    unsigned again = 0;
    for (uintptr_t i = 1; i <= 8 * HAK_SITES; i++) {
        again += hak_site_find(i * 0x1000) != NULL;
        assert_int_equal(hak_site_group(i * 0x1000), HAK_GROUP_SHORT);
    }
    assert_int_equal(again, HAK_SITES);
}

static void find_all(unsigned index, void *argument)
{
    (void)index;
    (void)argument;
    for (uintptr_t i = 1; i <= 300; i++) {
        struct hak_site *s = hak_site_find(i * 16);
        MUST(s != NULL && hak_load_relaxed(&s->address) == i * 16);
        hak_add_relaxed(&s->samples, 1u);
    }
}

static void threads_share_the_entries(void **state)
{
    (void)state;
    unit_in_threads(8, find_all, NULL);
    for (uintptr_t i = 1; i <= 300; i++)
        assert_int_equal(hak_load_relaxed(&hak_site_find(i * 16)->samples), 8);
}

/* --- lifetimes --- */

/* Memory in use, so that samples are allowed: a slab of a class for each request. */
static void use_memory(struct hak_heap *heap, unsigned slabs)
{
    static unsigned cls;
    bool zero;
    cls = hak_class_of(65536);
    for (unsigned i = 0; i < slabs; i++)
        MUST(hak_cache_refill(heap, cls, &zero) != NULL);
}

static uint32_t sample_of(const void *p)
{
    return hak_load_relaxed(&hak_slab_record(hak_slot_of(p))->large_sample);
}

static void release(void *p)
{
    assert_int_not_equal(sample_of(p), 0);
    uint32_t entry = hak_map_lookup(p);
    assert_true(hak_site_free_sample(p, entry));
    assert_int_equal(hak_map_lookup(p), 0);
    assert_false(hak_site_free_sample(p, entry)); /* twice */
}

static void pass_kib(struct hak_heap *heap, size_t kib)
{
    for (size_t i = 0; i < kib; i += 16 * HAK_SITES_TURN)
        hak_sites_count_refill(heap, 16 * KIB);
}

static void a_sample_is_a_block_whose_life_is_counted(void **state)
{
    (void)state;
    bool zero;
    struct hak_heap *heap = start();
    assert_null(hak_site_try_sample(0x1000, 64, 1, &zero)); /* nothing is in use */
    use_memory(heap, 600);
    char *p = hak_site_try_sample(0x1000, 64, 1, &zero);
    assert_non_null(p);
    memset(p, 1, 64);
    struct hak_site *s = hak_site_find(0x1000);
    assert_int_equal(hak_load_relaxed(&s->samples), 1);
    assert_int_equal(hak_load_relaxed(&s->live), 1);
    assert_int_equal(hak_load_relaxed(&s->least_bytes), 64);
    pass_kib(heap, 40000);
    char *q = hak_site_try_sample(0x1000, 200, 256, &zero);
    assert_int_equal((uintptr_t)q % 256, 0);
    assert_int_equal(hak_load_relaxed(&s->most_bytes), 200);
    pass_kib(heap, 10000);
    release(p);
    uint64_t life = hak_load_relaxed(&s->life_kib);
    CHECK(life >= 49000 && life <= 51000, "%lu KiB", life);
    assert_int_equal(hak_load_relaxed(&s->live), 1);
    release(q);
    assert_ptr_equal(hak_slot_address(hak_slot_of(hak_site_try_sample(0x1000, 64, 1, &zero))),
                     hak_slot_address(hak_slot_of(p))); /* the slot is kept */
    life = hak_load_relaxed(&s->life_kib) - life;
    CHECK(life >= 9000 && life <= 11000, "%lu KiB", life);
    assert_int_equal(hak_load_relaxed(&s->live), 1);
    assert_null(hak_site_try_sample(0x1000, 5000, 1, &zero)); /* too large */
}

static void few_samples_of_a_site_are_alive(void **state)
{
    (void)state;
    bool zero;
    use_memory(start(), 600);
    unsigned taken = 0;
    for (unsigned i = 0; i < 40; i++)
        taken += hak_site_try_sample(0x1000, 64, 1, &zero) != NULL;
    CHECK(taken >= 4 && taken <= 6, "%u", taken);
    struct hak_site *s = hak_site_find(0x1000);
    assert_int_equal(hak_load_relaxed(&s->live), taken);
    assert_int_equal(hak_load_relaxed(&s->skipped), 40 - taken);
    assert_non_null(hak_site_try_sample(0x2000, 64, 1, &zero)); /* others' may still be */
}

/* Of all sites together some, and one more for a few MiB in use; in a small program none. */
static void samples_are_few_for_what_is_in_use(void **state)
{
    (void)state;
    bool zero;
    struct hak_heap *heap = start();
    use_memory(heap, 16 * 16); /* some 16 MiB in blocks of a slot */
    assert_null(hak_site_try_sample(64, 64, 1, &zero));
    use_memory(heap, 16 * 48);
    unsigned taken = 0;
    for (uintptr_t i = 1; i < 200; i++)
        taken += hak_site_try_sample(i * 64, 64, 1, &zero) != NULL;
    CHECK(taken >= 8 && taken <= 32, "%u", taken);
}

static void it_is_time_now_and_then(void **state)
{
    (void)state;
    struct hak_heap *heap = start();
    unsigned times = 0;
    unsigned turns = 0;
    for (unsigned i = 0; i < 16384; i++) { /* 64 MiB */
        bool is_turn = hak_sites_is_turn_owner(heap);
        turns += is_turn;
        times += is_turn && hak_sites_count_refill(heap, 4 * KIB);
        hak_count_owner(&heap->stats.refills, 1u);
    }
    assert_in_range(turns, 16384 / HAK_SITES_TURN, 16384 / HAK_SITES_TURN + 1);
    CHECK(times >= 240 && times <= 270, "%u", times); /* each 256 KiB */
}

static void it_is_time_less_often_in_a_program_that_runs_on(void **state)
{
    (void)state;
    struct hak_heap *heap = start();
    unsigned times = 0;
    unsigned before = 0;
    for (unsigned gib = 1; gib <= 64; gib *= 4) { /* four times as much, twice as often */
        for (; hak_load_relaxed(&hak_lifetimes.clock_kib) < gib << 20;)
            times += hak_sites_count_refill(heap, 4 * KIB);
        CHECK(times >= 2000 && times <= (before == 0 ? 3500 : before * 5 / 2), "%u, %u", times,
              before);
        before = times;
    }
}

/* --- what is made of them --- */

/* A site whose samples have lived so long, on average. */
static void pretend(uintptr_t address, unsigned samples, uint64_t life_kib)
{
    struct hak_site *s = hak_site_find(address);
    hak_store_relaxed(&s->samples, samples);
    hak_store_relaxed(&s->life_kib, samples * life_kib);
    hak_store_relaxed(&s->least_bytes, 32u);
    hak_store_relaxed(&s->most_bytes, 96u);
}

static int here(int x)
{
    return x + 1;
}

static void sites_that_live_longer_become_rules(void **state)
{
    (void)state;
    uintptr_t code = (uintptr_t)here;
    struct hak_site_rule rule[8];
    assert_int_equal(hak_sites_learned(rule, 8), 0);
    pretend(code, 1000, 1000);
    pretend(code + 1, 20, 40000);
    pretend(code + 2, 40, 4000);
    pretend(code + 3, 3, 400000);              /* too few */
    pretend(0x10, 50, 400000);                 /* in no file */
    pretend(HAK_SITE_TOKEN | 77, 30, 4000000); /* a token */
    unsigned count = hak_sites_learned(rule, 8);
    assert_int_equal(count, 3);
    assert_int_equal(rule[0].group, HAK_GROUP_MEDIUM);
    assert_int_equal(rule[0].evidence, 40);
    assert_int_equal(rule[1].group, HAK_GROUP_LONG);
    assert_int_equal(rule[1].build_id_bytes, 0);
    assert_int_equal(rule[1].offset, 77);
    assert_int_equal(rule[2].group, HAK_GROUP_LONG);
    assert_int_equal(rule[2].evidence, 20);
    assert_int_equal(rule[2].least_bytes, 32);
    assert_int_equal(rule[2].most_bytes, 96);
    assert_int_equal(rule[2].offset - rule[0].offset, (uint64_t)-1);
    assert_memory_equal(rule[0].build_id, rule[2].build_id, sizeof rule[0].build_id);
    assert_int_equal(hak_sites_learned(rule, 2), 2); /* those with most evidence */
    assert_int_equal(rule[1].evidence, 30);
}

static void evidence_is_told_once(void **state)
{
    (void)state;
    uintptr_t code = (uintptr_t)here;
    struct hak_site_rule list[8];
    pretend(code, 1000, 1000);
    pretend(code + 1, 20, 40000);
    unsigned count = hak_sites_merge(list, 0, 8);
    assert_int_equal(count, 1);
    assert_int_equal(list[0].evidence, 20);
    assert_int_equal(hak_sites_merge(list, count, 8), 1); /* it was not written after all */
    assert_int_equal(list[0].evidence, 40);
    list[0].evidence = 20;
    hak_sites_told();
    assert_int_equal(hak_sites_merge(list, count, 8), 1);
    assert_int_equal(list[0].evidence, 20);
    pretend(code + 1, 27, 40000);
    assert_int_equal(hak_sites_merge(list, count, 8), 1);
    assert_int_equal(list[0].evidence, 27);
    assert_int_equal(list[0].group, HAK_GROUP_LONG);
}

static void sites_that_live_alike_make_no_rules(void **state)
{
    (void)state;
    struct hak_site_rule rule[8];
    for (uintptr_t i = 0; i < 8; i++)
        pretend((uintptr_t)here + i, 50, 90000 + 5000 * i);
    assert_int_equal(hak_sites_learned(rule, 8), 0);
}

static void the_file_of_an_address_is_found(void **state)
{
    (void)state;
    struct hak_os_module mine, libc;
    assert_true(hak_os_find_module((uintptr_t)here, &mine));
    assert_true(hak_os_find_module((uintptr_t)here + 1, &mine));
    assert_true(hak_os_find_module((uintptr_t)strlen, &libc));
    assert_int_equal(libc.build_id_bytes, HAK_BUILD_ID_MOST); /* a distribution's has one */
    assert_true(libc.base != mine.base);
    assert_false(hak_os_find_module(0x10, &mine));
    assert_false(hak_os_find_module((uintptr_t)&mine, &mine)); /* the stack */
    static const uintptr_t nowhere = 0x10;
    struct hak_os_module other;
    const uintptr_t code[] = {(uintptr_t)here, (uintptr_t)strlen, (uintptr_t)pthread_create,
                              nowhere};
    for (unsigned i = 0; i < UNIT_COUNT(code); i++) {
        bool found = hak_os_find_module(code[i], &mine);
        assert_int_equal(found, code[i] != nowhere);
        assert_int_equal(hak_os_find_running_module(code[i], &other), found);
        assert_true(!found || mine.base == other.base);
        assert_true(!found || mine.build_id_bytes == other.build_id_bytes);
        if (found)
            assert_memory_equal(mine.build_id, other.build_id, mine.build_id_bytes);
    }
}

#ifdef __GLIBC__ /* with others libm is no file of its own */
/* A copy of a library, with its program headers behind everything else. */
static void copy_with_headers_at_the_end(const char *library, const char *to)
{
    static char bytes[8 * MIB];
    FILE *from = fopen(library, "rb");
    MUST(from != NULL);
    size_t size = fread(bytes, 1, sizeof bytes - 64 * KIB, from);
    (void)fclose(from);
    ElfW(Ehdr) *header = (ElfW(Ehdr) *)(void *)bytes;
    size_t headers_bytes = header->e_phnum * sizeof(ElfW(Phdr));
    size_t at = hak_round_up(size, 4 * KIB);
    memcpy(bytes + at, bytes + header->e_phoff, headers_bytes);
    header->e_phoff = at;
    FILE *file = fopen(to, "wb");
    MUST(file != NULL && fwrite(bytes, 1, at + headers_bytes, file) == at + headers_bytes);
    MUST(fclose(file) == 0);
}

static void a_file_whose_headers_lie_elsewhere_is_found(void **state)
{
    (void)state;
    static char path[] = "/tmp/hakmem-headers-XXXXXX";
    struct link_map *usual = dlopen("libm.so.6", RTLD_NOW);
    struct hak_os_module known, found;
    MUST(usual != NULL && mkstemp(path) >= 0);
    copy_with_headers_at_the_end(usual->l_name, path);
    struct link_map *moved = dlopen(path, RTLD_NOW);
    unlink(path);
    CHECK(moved != NULL, "%s", dlerror());
    assert_true(hak_os_find_module((uintptr_t)dlsym(usual, "frexp"), &known));
    assert_true(hak_os_find_running_module((uintptr_t)dlsym(moved, "frexp"), &found));
    assert_int_equal(found.base, moved->l_addr);
    assert_int_equal(found.build_id_bytes, known.build_id_bytes);
    assert_memory_equal(found.build_id, known.build_id, known.build_id_bytes);
}
#endif

static void rules_give_sites_their_group(void **state)
{
    (void)state;
    uintptr_t code = (uintptr_t)here;
    start();
    struct hak_site *known = hak_site_find(code + 1); /* before there is a rule */
    pretend(code, 1000, 1000);
    pretend(code + 1, 20, 400000);
    pretend(HAK_SITE_TOKEN | 5, 20, 400000);
    struct hak_site_rule rule[4];
    assert_int_equal(hak_sites_learned(rule, 4), 2);
    for (unsigned i = 0; i < 2; i++)
        assert_true(hak_sites_add_rule(&rule[i]));
    assert_int_equal(hak_site_group(code + 1), HAK_GROUP_SHORT); /* not yet */
    hak_sites_apply();
    assert_int_equal(hak_load_relaxed(&known->group), HAK_GROUP_LONG);
    assert_int_equal(hak_site_group(code + 1), HAK_GROUP_LONG);
    assert_int_equal(hak_site_group(code), HAK_GROUP_SHORT);
    assert_int_equal(hak_site_group(HAK_SITE_TOKEN | 5), HAK_GROUP_LONG);
    assert_int_equal(hak_site_group(HAK_SITE_TOKEN | 6), HAK_GROUP_SHORT);
    /* sizes of 32 to 96 bytes, in fine classes and in the coarse ones of 32, 64 and 128 */
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        size_t size = hak_class(cls)->size_bytes;
        bool expected = (size >= 32 && size <= 96) || size == 128;
        CHECK(hak_cache_is_watched(HAK_WATCHER_SITES, cls) == expected, "%zu bytes", size);
    }
}

static sem_t in_the_list, leave_it;

static int stay(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)info;
    (void)size;
    (void)argument;
    sem_post(&in_the_list);
    sem_wait(&leave_it);
    return 1;
}

static void *hold_the_list_of_files(void *argument)
{
    dl_iterate_phdr(stay, argument);
    return NULL;
}

/* glibc leaves the lock of that list to whoever had it. */
static void a_child_finds_rules_though_a_thread_was_in_the_list_of_files(void **state)
{
    (void)state;
    pthread_t thread;
    struct hak_site_rule rule = {.offset = 1, .group = HAK_GROUP_LONG};
    start();
    assert_true(hak_sites_add_rule(&rule));
    hak_sites_apply();
    assert_true(sem_init(&in_the_list, 0, 0) == 0 && sem_init(&leave_it, 0, 0) == 0);
    assert_int_equal(pthread_create(&thread, NULL, hold_the_list_of_files, NULL), 0);
    assert_int_equal(sem_wait(&in_the_list), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(hak_site_group((uintptr_t)here) == HAK_GROUP_SHORT ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    sem_post(&leave_it);
    pthread_join(thread, NULL);
    assert_int_equal(status, 0);
}

static void there_is_an_end_to_rules(void **state)
{
    (void)state;
    struct hak_site_rule rule = {.group = HAK_GROUP_LONG, .least_bytes = 1, .most_bytes = 1};
    for (rule.offset = 0; rule.offset < HAK_SITE_RULES; rule.offset++)
        assert_true(hak_sites_add_rule(&rule));
    assert_false(hak_sites_add_rule(&rule));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_site_keeps_its_entry),
    cmocka_unit_test(a_full_table_knows_no_more_sites),
    cmocka_unit_test(threads_share_the_entries),
    cmocka_unit_test(a_sample_is_a_block_whose_life_is_counted),
    cmocka_unit_test(few_samples_of_a_site_are_alive),
    cmocka_unit_test(samples_are_few_for_what_is_in_use),
    cmocka_unit_test(it_is_time_now_and_then),
    cmocka_unit_test(it_is_time_less_often_in_a_program_that_runs_on),
    cmocka_unit_test(sites_that_live_longer_become_rules),
    cmocka_unit_test(evidence_is_told_once),
    cmocka_unit_test(sites_that_live_alike_make_no_rules),
    cmocka_unit_test(the_file_of_an_address_is_found),
#ifdef __GLIBC__
    cmocka_unit_test(a_file_whose_headers_lie_elsewhere_is_found),
#endif
    cmocka_unit_test(rules_give_sites_their_group),
    cmocka_unit_test(a_child_finds_rules_though_a_thread_was_in_the_list_of_files),
    cmocka_unit_test(there_is_an_end_to_rules),
};
UNIT_MAIN(tests)
