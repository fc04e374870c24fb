/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Scheduler of the tests: threads with stacks of their own, one of which runs at a time, and the
 * choice of who goes on. See sched.h and docs/scheduler.md.
 *
 * Under half of the seeds the choice is that of S. Burckhardt, P. Kothari, M. Musuvathi and
 * S. Nagarakatte, "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs" (2010):
 * threads have random priorities, the highest goes on, and at a few random steps the running one
 * falls below all others. Under the other half it is a die at each step. */
#include "scenarios.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

#define STACK_BYTES ((size_t)256 << 10)
#define CHANGES_MAX 4u
#define POINTS_MAX 60000u /* in one run: no scenario comes near */
#define LEARNING_RUNS 24u
#define STUCK_SECONDS 20 /* of processor time, without any step */

enum state { READY, ASLEEP, OVER };

struct thread {
    ucontext_t context;
    enum state state;
    const volatile void *word; /* that it sleeps on */
    int priority;
    struct hak_front *front;
    char *stack;
};

/* What outlives a run: the data of the program, the allocator's with it, is put back before each.
 */
static struct world {
    struct sched_run run;
    struct thread threads[SCHED_THREADS];
    ucontext_t main;
    sigjmp_buf back;
    bool has_back;
    char message[512];
    uint64_t random;
    const struct scenario *scenario;
    unsigned change_count, switch_share; /* of 256; 0: by priorities */
    uint64_t changes[CHANGES_MAX];
    uint64_t points_expected; /* the longest of the runs for learning */
    int lowest;
    char *data_copy;
    uint64_t started;
    uint64_t steps_total, steps_most;
} *world;

struct sched_run *sched_run;

extern char __data_start[], _edata[], __bss_start[], _end[];

/* --- the program's data --- */

static void world_make(void)
{
    world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *stacks = mmap(NULL, SCHED_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t bytes = (size_t)(_edata - __data_start) + (size_t)(_end - __bss_start);
    char *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (world == MAP_FAILED || stacks == MAP_FAILED || copy == MAP_FAILED)
        abort();
    world->data_copy = copy;
    for (unsigned t = 0; t < SCHED_THREADS; t++)
        world->threads[t].stack = stacks + t * STACK_BYTES;
    sched_run = &world->run;
    sched_run->self = SCHED_THREADS;
    memory_begin(0);
    sim_os_reset();
    memory_watch(__data_start, (size_t)(_edata - __data_start));
    memory_watch(__bss_start, (size_t)(_end - __bss_start));
}

static void world_save(void)
{
    size_t data = (size_t)(_edata - __data_start);
    memcpy(world->data_copy, __data_start, data);
    memcpy(world->data_copy + data, __bss_start, (size_t)(_end - __bss_start));
}

static void world_restore(void)
{
    size_t data = (size_t)(_edata - __data_start);
    (memcpy)(__data_start, world->data_copy, data);
    (memcpy)(__bss_start, world->data_copy + data, (size_t)(_end - __bss_start));
    sim_os_reset();
    hak_self = &hak_front_none;
}

/* --- chance --- */

static uint64_t random_next(void)
{
    uint64_t z = world->random += 0x9E3779B97F4A7C15u; /* G. Steele et al., SplitMix64 (2014) */
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

unsigned sched_random(unsigned limit)
{
    return (unsigned)((random_next() >> 32) * limit >> 32);
}

/* --- what scenarios call --- */

void sched_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(world->message, sizeof world->message, format, arguments);
    va_end(arguments);
    if (!world->has_back) { /* not in a run: the scheduler itself is wrong */
        fprintf(stderr, "sched: %s\n", world->message);
        abort();
    }
    siglongjmp(world->back, 1);
}

unsigned sched_self(void)
{
    return sched_run->self;
}

void sched_note(const char *format, ...)
{
    if (!sched_run->traced)
        return;
    va_list arguments;
    va_start(arguments, format);
    if (sched_run->self == SCHED_THREADS)
        printf("%6s     ", "");
    else
        printf("%6" PRIu64 " T%u  ", sched_run->steps, sched_run->self);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

/* --- who goes on --- */

static unsigned sched_ready(unsigned *ready)
{
    unsigned count = 0;
    for (unsigned t = 0; t < world->scenario->threads; t++)
        if (world->threads[t].state == READY)
            ready[count++] = t;
    return count;
}

static _Noreturn void sched_deadlock(void)
{
    char text[128] = "";
    size_t length = 0;
    for (unsigned t = 0; t < world->scenario->threads; t++)
        if (world->threads[t].state == ASLEEP)
            length += (size_t)snprintf(text + length, sizeof text - length, " thread %u on %p;", t,
                                       (const void *)(uintptr_t)world->threads[t].word);
    sched_fail("deadlock: all threads sleep or are over:%s", text);
}

static unsigned sched_choose(void)
{
    unsigned ready[SCHED_THREADS];
    unsigned count = sched_ready(ready);
    unsigned self = sched_run->self;
    if (count == 0)
        sched_deadlock();
    if (world->switch_share != 0) {
        if (self != SCHED_THREADS && world->threads[self].state == READY &&
            sched_random(256) >= world->switch_share)
            return self;
        return ready[sched_random(count)];
    }
    unsigned best = ready[0];
    for (unsigned i = 1; i < count; i++)
        if (world->threads[ready[i]].priority > world->threads[best].priority)
            best = ready[i];
    return best;
}

static void sched_switch(unsigned to)
{
    unsigned from = sched_run->self;
    if (to == from)
        return;
    if (world->scenario->between != NULL) {
        sched_run->self = SCHED_THREADS; /* it looks at memory directly */
        world->scenario->between();
    }
    ucontext_t *here = from == SCHED_THREADS ? &world->main : &world->threads[from].context;
    if (from != SCHED_THREADS)
        world->threads[from].front = hak_self;
    sched_run->self = to;
    hak_self = world->threads[to].front;
    swapcontext(here, &world->threads[to].context);
}

static void sched_step(void)
{
    uint64_t at = ++sched_run->points;
    if (at > POINTS_MAX)
        sched_fail("livelock: not over after %u points", POINTS_MAX);
    for (unsigned i = 0; i < world->change_count; i++)
        if (world->changes[i] == at)
            world->threads[sched_run->self].priority = --world->lowest;
}

void sched_before_operation(void)
{
    sched_step();
    sched_switch(sched_choose());
}

void sched_point(const char *what)
{
    if (sched_run->self == SCHED_THREADS)
        return;
    sched_note("%s", what);
    sched_before_operation();
}

void hak_sched_pause(void)
{
    if (sched_run->self == SCHED_THREADS)
        return;
    world->threads[sched_run->self].priority = --world->lowest;
    sched_before_operation();
}

void hak_sched_sleep(const volatile void *word, uint32_t value)
{
    if (sched_run->self == SCHED_THREADS)
        sched_fail("deadlock: a lock is held that nobody will give back");
    sched_step();
    if (*(const volatile uint32_t *)word != value || sched_random(16) == 0)
        return; /* changed meanwhile; or woken for no reason */
    struct thread *t = &world->threads[sched_run->self];
    sched_note("sleeps");
    t->state = ASLEEP;
    t->word = word;
    sched_switch(sched_choose());
}

uintptr_t hak_sched_thread(void)
{
    return (uintptr_t)&world->threads[0] + sched_run->self;
}

void hak_sched_wake(const volatile void *word)
{
    unsigned asleep[SCHED_THREADS];
    unsigned count = 0;
    for (unsigned t = 0; t < world->scenario->threads; t++)
        if (world->threads[t].state == ASLEEP && world->threads[t].word == word)
            asleep[count++] = t;
    if (count == 0)
        return;
    unsigned t = asleep[sched_random(count)];
    sched_note("wakes T%u", t);
    world->threads[t].state = READY;
    sched_step();
    sched_switch(sched_choose());
}

/* --- one run --- */

static void thread_main(void)
{
    unsigned self = sched_run->self;
    world->scenario->run(self);
    world->threads[self].state = OVER;
    sched_note("is over");
    unsigned ready[SCHED_THREADS];
    bool all = true;
    for (unsigned t = 0; t < world->scenario->threads; t++)
        all = all && world->threads[t].state == OVER;
    if (!all) {
        if (sched_ready(ready) == 0)
            sched_deadlock();
        sched_switch(sched_choose());
    }
    sched_run->self = SCHED_THREADS;
    setcontext(&world->main);
}

static void run_threads(void)
{
    for (unsigned t = 0; t < world->scenario->threads; t++) {
        struct thread *thread = &world->threads[t];
        getcontext(&thread->context);
        thread->context.uc_stack.ss_sp = thread->stack;
        thread->context.uc_stack.ss_size = STACK_BYTES;
        thread->context.uc_link = NULL;
        makecontext(&thread->context, thread_main, 0);
        thread->state = READY;
        thread->front = &hak_front_none;
    }
    sched_switch(sched_choose());
}

/* Everything that is chosen once a run. */
static void run_plan(uint64_t seed)
{
    world->random = seed * 0xD1342543DE82EF95u + 1;
    for (const char *c = world->scenario->name; *c != '\0'; c++)
        world->random = world->random * 31 + (unsigned char)*c;
    world->run =
        (struct sched_run){.seed = seed, .self = SCHED_THREADS, .traced = world->run.traced};
    world->run.weak = seed & 1;
    world->run.every_operation = (seed >> 3) % 4 == 0;
    static const unsigned shares[4] = {0, 0, 128, 24};
    world->switch_share = shares[(seed >> 1) % 4];
    world->change_count = 1 + sched_random(CHANGES_MAX);
    uint64_t length = world->points_expected * (world->run.every_operation ? 4 : 1);
    for (unsigned i = 0; i < world->change_count; i++)
        world->changes[i] = 1 + sched_random((unsigned)length);
    world->lowest = 0;
    for (unsigned t = 0; t < world->scenario->threads; t++) {
        unsigned other = sched_random(t + 1);
        world->threads[t].priority = world->threads[other].priority;
        world->threads[other].priority = (int)t + 1;
        if (other == t)
            world->threads[t].priority = (int)t + 1;
    }
}

/* False: it failed; world->message says how. */
static bool run_seed(uint64_t seed)
{
    world_restore();
    run_plan(seed);
    memory_begin(world->scenario->threads);
    world->message[0] = '\0';
    if (sigsetjmp(world->back, 1) != 0) {
        sched_run->self = SCHED_THREADS;
        world->has_back = false;
        return false;
    }
    world->has_back = true;
    world->scenario->setup();
    run_threads();
    hak_self = &hak_front_none;
    world->scenario->check();
    world->has_back = false;
    world->steps_total += sched_run->steps;
    if (world->steps_most < sched_run->steps)
        world->steps_most = sched_run->steps;
    return true;
}

/* Which memory several threads use, and how many points a run has: found in runs that are the same
 * whatever the seed. */
static void scenario_learn(const struct scenario *scenario)
{
    bool traced = sched_run->traced;
    world->scenario = scenario;
    world->run.traced = false;
    world->points_expected = 1000;
    memory_learn(true);
    for (unsigned i = 0; i < LEARNING_RUNS; i++)
        run_seed(UINT64_MAX - 4 * i); /* by dice, odd or even */
    memory_learn(false);
    uint64_t most = 16;
    for (unsigned i = 0; i < LEARNING_RUNS; i++)
        if (run_seed(UINT64_MAX / 2 - 16 - 16 * i) && sched_run->points > most)
            most = sched_run->points;
    world->points_expected = most;
    world->run.traced = traced;
    world->steps_total = world->steps_most = 0;
}

static void on_signal(int number)
{
    if (number == SIGVTALRM)
        sched_fail("stuck: %d seconds without an end", STUCK_SECONDS);
    sched_fail("signal %d (%s)", number, strsignal(number));
}

static void catch_signals(void)
{
    stack_t stack = {.ss_size = STACK_BYTES};
    stack.ss_sp =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack.ss_sp == MAP_FAILED || sigaltstack(&stack, NULL) != 0)
        abort();
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_NODEFER};
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGVTALRM};
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaction(numbers[i], &action, NULL);
}

static void guard_time(void)
{
    struct itimerval timer = {.it_value = {.tv_sec = STUCK_SECONDS}};
    setitimer(ITIMER_VIRTUAL, &timer, NULL);
}

static const char *own_name;

bool sched_scenario(const struct scenario *scenario, uint64_t first, uint64_t count, uint64_t step)
{
    guard_time();
    scenario_learn(scenario);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t seed = first + i * step;
        if (i % 256 == 0)
            guard_time();
        if (run_seed(seed))
            continue;
        printf("FAILED %s seed %" PRIu64 " after %" PRIu64 " seeds: %s\n", scenario->name, seed,
               i + 1, world->message);
        printf("  again: %s --scenario %s --seed %" PRIu64 " --trace\n", own_name, scenario->name,
               seed);
        return false;
    }
    printf("ok     %-24s %" PRIu64 " seeds, %" PRIu64 " steps each, %" PRIu64 " at most; %" PRIu64
           " points\n",
           scenario->name, count, count == 0 ? 0 : world->steps_total / count, world->steps_most,
           world->points_expected);
    return true;
}

void sched_begin(const char *program, bool traced)
{
    own_name = program;
    catch_signals();
    world_make();
    world->run.traced = traced;
    world_save();
}
