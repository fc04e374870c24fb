/* Stress: how much memory is resident while the test runs and when it is idle. See footprint.h.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "footprint.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shadow.h"
#include "support/api.h"

/* Snapshots are averaged over quarters of the time: in the first the working set is being built,
 * from the second to the last it must not grow. How much is live wavers by some percent, and takes
 * what is resident with it: judged is what is resident for each byte that is live, in runs that are
 * long enough for averages that tell two percent. */
enum { QUARTERS = 4, IDLE_SECONDS = 10, JUDGED_SECONDS = 300 };
#define MIB (1024.0 * 1024.0)
#define DRIFT_PERCENT 2.0
#define IDLE_SPARE_BYTES (16 * MIB)
#define IDLE_FACTOR 1.2

static struct {
    double resident, live;
    double count;
} quarters[QUARTERS];

void footprint_now(size_t *mapped, size_t *resident)
{
    char text[128] = "";
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0)
        shadow_fail(NULL, "/proc/self/statm cannot be read");
    close(file);
    char *end;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *mapped = strtoul(text, &end, 10) * page;
    *resident = strtoul(end, NULL, 10) * page;
}

void footprint_sample(double part, size_t live)
{
    size_t mapped, resident;
    footprint_now(&mapped, &resident);
    unsigned quarter = (unsigned)(part * (double)QUARTERS);
    if (quarter >= QUARTERS)
        return;
    quarters[quarter].resident += (double)resident / MIB;
    quarters[quarter].live += (double)live / MIB;
    quarters[quarter].count += 1;
}

static double footprint_share(unsigned quarter)
{
    if (quarters[quarter].count == 0)
        shadow_fail(NULL, "no snapshot of memory was taken in quarter %u", quarter + 1);
    printf("%.1f MiB resident for %.1f live", quarters[quarter].resident / quarters[quarter].count,
           quarters[quarter].live / quarters[quarter].count);
    return quarters[quarter].resident / quarters[quarter].live;
}

void footprint_judge(unsigned seconds, size_t live)
{
    sleep(IDLE_SECONDS);
    size_t mapped, idle;
    footprint_now(&mapped, &idle);
    printf("footprint: in the second quarter ");
    double second = footprint_share(1);
    printf(", in the last ");
    double drift = (footprint_share(QUARTERS - 1) / second - 1) * 100;
    bool is_judged = getenv("HAKMEM_BACKGROUND_THREAD") != NULL;
    printf(": drift %+.2f%%; idle %.1f MiB for %.1f%s\n", drift, (double)idle / MIB,
           (double)live / MIB, is_judged ? "" : " (not judged: nobody works for the idle program)");
    fflush(stdout);
    if (drift > DRIFT_PERCENT && seconds >= JUDGED_SECONDS)
        shadow_fail(NULL, "resident memory grew by %.2f%% in a steady program", drift);
    if (is_judged && (double)idle > IDLE_FACTOR * (double)live + IDLE_SPARE_BYTES)
        shadow_fail(NULL, "idle with %zu bytes live, %zu are resident", live, idle);
}
