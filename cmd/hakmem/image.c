/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: finds the allocator's root in a process, see image.h. */
#include "image.h"

#include "util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Larger mappings are not searched where there is no file's name (in a core), nor where that would
 * bring all of them into the process's memory. */
#define SEARCH_MOST_BYTES ((uint64_t)64 << 20)

static const uint32_t image_sizes[HAK_ROOT_PARTS] = HAK_ROOT_SIZES;

enum image_match { IMAGE_NONE, IMAGE_OTHER, IMAGE_FITS };

static enum image_match image_match(const struct hak_root *root)
{
    if (memcmp(root->magic, HAK_ROOT_MAGIC, sizeof root->magic) != 0)
        return IMAGE_NONE;
    if (root->version != HAK_ROOT_VERSION || root->bytes != sizeof *root ||
        root->offsets != HAK_ROOT_OFFSETS)
        return IMAGE_OTHER;
    for (unsigned i = 0; i < HAK_ROOT_PARTS; i++)
        if (image_sizes[i] != 0 && image_sizes[i] != root->sizes[i])
            return IMAGE_OTHER;
    return IMAGE_FITS;
}

/* The magic is in the data of this very command as well; a root that is not complete is no root. */
static bool image_try_root(struct hak_image *image, uint64_t at, enum image_match *best)
{
    struct hak_root root;
    if (!hak_remote_read(image->remote, at, &root, sizeof root))
        return false;
    enum image_match match = image_match(&root);
    if (match <= *best && match != IMAGE_FITS) /* a root that is not in use may come first */
        return false;
    *best = match;
    image->root = root;
    image->root_at = at;
    const struct hak_mapping *m = hak_remote_find(image->remote, at);
    (void)snprintf(image->library, sizeof image->library, "%s", hak_basename(m->name));
    image->in_library = hak_starts_with(image->library, "libhakmem");
    return match == IMAGE_FITS && hak_image_refresh(image) && image->started;
}

/* Stops at a root that fits and that is in use. Pages that are not in memory are left alone in the
 * first round: reading would bring them there. */
static bool image_search(struct hak_image *image, const struct hak_mapping *m, bool resident_only,
                         char *buffer, enum image_match *best)
{
    for (uint64_t at = m->start; at < m->end; at += HAK_PAGE_BYTES) {
        bool wanted = !resident_only || hak_remote_resident_mask(image->remote, at, 1) != 0;
        if (!wanted || !hak_remote_read(image->remote, at, buffer, HAK_PAGE_BYTES))
            continue;
        for (size_t i = 0; i < HAK_PAGE_BYTES; i += HAK_ROOT_ALIGN)
            if (memcmp(buffer + i, HAK_ROOT_MAGIC, sizeof image->root.magic) == 0 &&
                image_try_root(image, at + i, best))
                return true;
    }
    return false;
}

/* Of a library of ours first, of several the one that is malloc; then of other files, then of
 * memory without a file. */
static bool image_is_in_round(const struct hak_mapping *m, unsigned round, bool reads_all)
{
    bool ours = hak_starts_with(hak_basename(m->name), "libhakmem");
    bool prefixed = hak_starts_with(hak_basename(m->name), "libhakmem-prefixed");
    bool file = m->name[0] == '/';
    bool large = m->end - m->start > SEARCH_MOST_BYTES;
    if (!m->writable || m->shared || (large && reads_all))
        return false;
    return round == 0   ? ours && !prefixed
           : round == 1 ? prefixed
           : round == 2 ? file && !ours
                        : !file && !large;
}

static bool image_find(struct hak_image *image, enum image_match *best)
{
    char buffer[HAK_PAGE_BYTES];
    struct hak_remote *r = image->remote;
    unsigned rounds = r->is_core ? 4 : 3;
    for (unsigned resident_only = r->is_core ? 0 : 1;; resident_only = 0) {
        for (unsigned round = 0; round < rounds; round++)
            for (size_t i = 0; i < r->count; i++)
                if (image_is_in_round(&r->mappings[i], round, !r->is_core && resident_only == 0) &&
                    image_search(image, &r->mappings[i], resident_only, buffer, best))
                    return true;
        if (resident_only == 0 || *best != IMAGE_NONE)
            return *best == IMAGE_FITS && hak_image_refresh(image);
    }
}

static bool image_copy(struct hak_image *image, enum hak_root_part part, void *to, size_t bytes)
{
    return hak_remote_read(image->remote, (uint64_t)(uintptr_t)image->root.at[part], to, bytes);
}

/* Whoever walks the slabs divides by these. */
static bool image_class_fits(const struct hak_class *c)
{
    return c->slots != 0 && c->slots <= HAK_SLAB_MOST_SLOTS && HAK_SLOTS % c->slots == 0 &&
           c->blocks != 0 && c->size_bytes != 0 &&
           (uint64_t)c->blocks * c->size_bytes <= c->slots * HAK_SLOT_BYTES &&
           (!c->inline_bits || hak_slab_words(c) == 1);
}

static bool image_classes_fit(void)
{
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++)
        if (!image_class_fits(hak_class(cls)))
            return false;
    return true;
}

bool hak_image_refresh(struct hak_image *image)
{
    bool whole = image_copy(image, HAK_ROOT_SPACE, &image->space, sizeof image->space) &&
                 image_copy(image, HAK_ROOT_WINDOW, &image->window, sizeof image->window) &&
                 image_copy(image, HAK_ROOT_META, &image->meta, sizeof image->meta) &&
                 image_copy(image, HAK_ROOT_FAILURES, &image->failures, sizeof image->failures) &&
                 image_copy(image, HAK_ROOT_REGISTRY, &image->registry, sizeof image->registry) &&
                 image_copy(image, HAK_ROOT_ORPHANS, &image->orphans, sizeof image->orphans) &&
                 image_copy(image, HAK_ROOT_TABLES, &hak_tables, sizeof hak_tables) &&
                 image_copy(image, HAK_ROOT_POOL, &hak_pool, sizeof hak_pool) &&
                 image_copy(image, HAK_ROOT_LARGE, &hak_large_counters, sizeof hak_large_counters);
    image->started = whole && hak_load_relaxed(&image->space.slots) != 0 && image->orphans != 0 &&
                     hak_class(HAK_CLASSES - 1)->size_bytes != 0;
    image->has_policy = image->root.sizes[HAK_ROOT_POLICY] == sizeof image->policy &&
                        image_copy(image, HAK_ROOT_POLICY, &image->policy, sizeof image->policy);
    return whole && (!image->started || image_classes_fit());
}

const char *hak_image_version(const struct hak_image *image)
{
    static char text[32];
    uint32_t v = image->root.library;
    (void)snprintf(text, sizeof text, "%u.%u.%u", v >> 16, v >> 8 & 0xff, v & 0xff);
    return text;
}

/* Whether a core has not the memory of a library of ours that was there. */
static bool image_is_left_out(const struct hak_remote *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->mappings[i].writable && r->mappings[i].at_offset == UINT64_MAX &&
            hak_starts_with(hak_basename(r->mappings[i].name), "libhakmem"))
            return true;
    return false;
}

bool hak_image_open(struct hak_image *image, struct hak_remote *r, struct hak_obstacle *obstacle)
{
    enum image_match best = IMAGE_NONE;
    *image = (struct hak_image){.remote = r};
    if (image_find(image, &best))
        return true;
    const char *name = r->name[0] == '\0' ? "the program" : r->name;
    if (best == IMAGE_NONE && r->is_core && image_is_left_out(r)) {
        obstacle->problem = hak_format("the memory of hakmem was left out of the core file %s "
                                       "(of %s)",
                                       r->path, name);
        obstacle->hint = "let private memory be written: bit 0 of /proc/PID/coredump_filter "
                         "(0x33 is usual), or make one with: gcore PID";
    } else if (best == IMAGE_NONE && r->is_core) {
        obstacle->problem = hak_format("no hakmem is in the core file %s (of %s)", r->path, name);
        obstacle->hint = "the program must run under hakmem: hakmem run -- COMMAND";
    } else if (best == IMAGE_NONE) {
        obstacle->problem = hak_format("process %d (%s) does not use hakmem", (int)r->pid, name);
        obstacle->hint = "start it with: hakmem run -- COMMAND; 'hakmem doctor PID' says why it "
                         "did not take over";
    } else if (best == IMAGE_OTHER) {
        obstacle->problem =
            hak_format("%s uses hakmem %s, whose records this command (%s) does not know", name,
                       hak_image_version(image), HAKMEM_VERSION);
        obstacle->hint = r->is_core ? "use the hakmem command that was installed with that library"
                                    : "use the hakmem command that was installed with that "
                                      "library, or start the process again with the one that is "
                                      "installed now";
    } else {
        obstacle->problem = hak_format("hakmem is in %s, but its records cannot be read", name);
        obstacle->hint = "try again; a core file may be cut off";
    }
    return false;
}
