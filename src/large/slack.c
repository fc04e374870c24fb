/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * large: what lies behind huge blocks. A block that is made of memory of before has all of its last
 * superslab, and there may be much more of that than it needs. Its pages could go; but a program
 * that replaces such blocks would pay for them with each: a call, and a page fault each when a
 * later block reaches that far. It is the same with what a block had before it became smaller. So
 * they stay where as much might be kept without being a block's, and a little of them in any case;
 * and go when the block has had them for as long as anything is kept that nobody uses. The program
 * does not know of them: they are not part of what it may write to.
 *
 * Blocks with such pages are linked by their records, the newest first, under a lock: whoever gives
 * pages back holds it, so that a block is not freed, and its memory somebody else's, meanwhile.
 * Both ways, as a program may have many thousands and free them in any order. */
#include "large/large_internal.h"

#define SLACK_LEAST_SLOTS ((size_t)(4 << 20) / HAK_SLOT_BYTES)
#define SLACK_SHARE 8

static struct {
    struct hak_lock lock;
    uint32_t newest; /* superslab + 1, linked by `older` and `newer` */
} slack;

static bool slack_may_stay(size_t slots)
{
    if (hak_load_relaxed(&hak_pool_knobs.give_back) != HAK_GIVE_BACK_NONE)
        return false;
    size_t all = hak_load_relaxed(&hak_large_counters.huge_bytes) / HAK_SLOT_BYTES;
    size_t most = hak_max(SLACK_LEAST_SLOTS, all / SLACK_SHARE);
    return hak_load_relaxed(&hak_large_counters.slack_slots) + slots <=
           hak_max(most, hak_pool_kept_room_slots());
}

/* Returns what the pages are then. */
static uint8_t slack_purge(size_t superslab)
{
    const struct hak_superslab *r = hak_superslab(superslab);
    size_t bytes = r->huge.slack_slots * HAK_SLOT_BYTES;
    char *at = hak_superslab_address(superslab) + r->huge.mapped_bytes - bytes;
    return hak_os_purge(at, bytes) == 0 ? HAK_SLACK_GONE : HAK_SLACK_ANY;
}

/* The caller, who holds the lock, has taken it out of the list. */
static void slack_uncount_locked(struct hak_superslab *r, uint8_t pages)
{
    hak_sub_relaxed(&hak_large_counters.slack_slots, (size_t)r->huge.slack_slots);
    /* ORDER: [slack] pages are given back no more; pairs with hak_slack_forget, whose caller is
     * about to do something else with the memory */
    hak_store_release(&r->huge.slack, pages);
}

static void slack_link_locked(size_t superslab)
{
    struct hak_superslab *r = hak_superslab(superslab);
    r->older = slack.newest;
    r->newer = 0;
    if (slack.newest != 0)
        hak_superslab(slack.newest - 1)->newer = (uint32_t)superslab + 1;
    slack.newest = (uint32_t)superslab + 1;
}

/* What does not lead back is not the list any more: a fork has cut it off. */
static void slack_unlink_locked(size_t superslab)
{
    const struct hak_superslab *r = hak_superslab(superslab);
    uint32_t *to_this = r->newer != 0 ? &hak_superslab(r->newer - 1)->older : &slack.newest;
    if (*to_this == superslab + 1)
        *to_this = r->older;
    if (r->older != 0 && hak_superslab(r->older - 1)->newer == superslab + 1)
        hak_superslab(r->older - 1)->newer = r->newer;
}

bool hak_slack_try_keep(size_t superslab)
{
    struct hak_superslab *r = hak_superslab(superslab);
    if (!slack_may_stay(r->huge.slack_slots))
        return false;
    hak_add_relaxed(&hak_large_counters.slack_slots, (size_t)r->huge.slack_slots);
    hak_store_relaxed(&r->released_ns, hak_os_now_ns());
    hak_lock(&slack.lock);
    hak_store_relaxed(&r->huge.slack, (uint8_t)HAK_SLACK_STAYS);
    slack_link_locked(superslab);
    hak_unlock(&slack.lock);
    return true;
}

void hak_slack_keep_or_purge(size_t superslab, unsigned clean_slots)
{
    struct hak_superslab *r = hak_superslab(superslab);
    uint8_t pages = clean_slots >= r->huge.slack_slots ? HAK_SLACK_GONE : HAK_SLACK_ANY;
    hak_store_relaxed(&r->huge.slack, pages);
    if (pages != HAK_SLACK_GONE && !hak_slack_try_keep(superslab))
        hak_store_relaxed(&r->huge.slack, slack_purge(superslab));
}

bool hak_slack_forget(size_t superslab)
{
    struct hak_superslab *r = hak_superslab(superslab);
    uint8_t pages = hak_load_acquire(&r->huge.slack); /* ORDER: [slack] */
    if (pages != HAK_SLACK_STAYS)
        return pages == HAK_SLACK_GONE;
    hak_lock(&slack.lock);
    pages = hak_load_relaxed(&r->huge.slack);
    if (pages == HAK_SLACK_STAYS) {
        slack_unlink_locked(superslab);
        slack_uncount_locked(r, HAK_SLACK_ANY);
    }
    hak_unlock(&slack.lock);
    return pages == HAK_SLACK_GONE;
}

size_t hak_slack_give_back(uint64_t before_ns)
{
    if (hak_load_relaxed(&hak_large_counters.slack_slots) == 0)
        return 0;
    size_t slots = 0;
    hak_lock(&slack.lock);
    uint32_t link = slack.newest;
    while (link != 0 && hak_load_relaxed(&hak_superslab(link - 1)->released_ns) >= before_ns)
        link = hak_superslab(link - 1)->older;
    while (link != 0) {
        size_t superslab = link - 1;
        struct hak_superslab *r = hak_superslab(superslab);
        link = r->older;
        uint8_t pages = slack_purge(superslab);
        slots += r->huge.slack_slots;
        slack_unlink_locked(superslab);
        slack_uncount_locked(r, pages);
    }
    hak_unlock(&slack.lock);
    return slots * HAK_SLOT_BYTES;
}

void hak_slack_fork_child(void)
{
    if (hak_lock_recover(&slack.lock))
        slack.newest = 0; /* those that were in it keep their pages */
}
