/* What the tests run in C and in C++: locks of its own between threads, or those of a page that Rust processes share.
 *
 * worker threads             everything in one process
 * worker page FD ROUNDS      the locks of the page behind a descriptor, as `tests/c_header.rs` lays it out
 * worker robust FD           the robust lock of the page, until the page says that it is over */
#include "holdfast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Not `assert`, which a build may leave out. */
#define CHECK(what)                                                                                  \
    do {                                                                                             \
        if (!(what)) {                                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                               \
            abort();                                                                                 \
        }                                                                                            \
    } while (0)

struct page {
    holdfast_mutex_t mutex;
    holdfast_cond_t cond;
    holdfast_rwlock_t rwlock;
    holdfast_once_t once;
    uint64_t count, first, second, turn;
    holdfast_robust_t robust;
    uint64_t inside, rounds, is_over;
};

static struct page here;

static struct timespec soon(int clock) {
    struct timespec now;
    CHECK(syscall(SYS_clock_gettime, clock, &now) == 0);
    now.tv_nsec += 1000000;
    if (now.tv_nsec >= 1000000000) {
        now.tv_sec++;
        now.tv_nsec -= 1000000000;
    }
    return now;
}

static void work_on_page(struct page *page, unsigned rounds) {
    for (unsigned round = 0; round < rounds; round++) {
        struct timespec until = soon(HOLDFAST_CLOCK_MONOTONIC);
        int taken = round % 8 ? holdfast_mutex_lock_pshared(&page->mutex)
                              : holdfast_mutex_clocklock_pshared(&page->mutex, HOLDFAST_CLOCK_MONOTONIC, &until);
        if (taken == ETIMEDOUT) CHECK(holdfast_mutex_lock_pshared(&page->mutex) == 0);
        page->count++;
        CHECK(holdfast_mutex_unlock_pshared(&page->mutex) == 0);
        if (round % 4) {
            CHECK(holdfast_rwlock_rdlock_pshared(&page->rwlock) == 0);
            CHECK(page->first == page->second);
            CHECK(holdfast_rwlock_rdunlock_pshared(&page->rwlock) == 0);
        } else {
            CHECK(holdfast_rwlock_wrlock_pshared(&page->rwlock) == 0);
            page->first++;
            page->second++;
            CHECK(holdfast_rwlock_wrunlock_pshared(&page->rwlock) == 0);
        }
    }
    /* The one whose turn it is passes it on: each wake-up is needed. */
    for (unsigned round = 0; round < rounds / 16; round++) {
        CHECK(holdfast_mutex_lock_pshared(&page->mutex) == 0);
        uint64_t mine = page->turn | 1;
        page->turn = mine + 1;
        holdfast_cond_broadcast_pshared(&page->cond);
        CHECK(holdfast_mutex_unlock_pshared(&page->mutex) == 0);
    }
}

#ifdef HOLDFAST_HAS_ROBUST
static void work_on_robust(struct page *page) {
    while (!__atomic_load_n(&page->is_over, __ATOMIC_SEQ_CST)) {
        int taken = holdfast_robust_lock(&page->robust);
        uint64_t others;
        CHECK(taken == 0 || taken == EOWNERDEAD);
        others = __atomic_exchange_n(&page->inside, 1, __ATOMIC_SEQ_CST);
        CHECK(others == 0 || taken == EOWNERDEAD);
        __atomic_fetch_add(&page->rounds, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&page->inside, 0, __ATOMIC_SEQ_CST);
        CHECK(holdfast_robust_consistent(&page->robust) == 0);
        CHECK(holdfast_robust_unlock(&page->robust) == 0);
    }
}

static void misuse_of_robust(struct page *page) {
    int taken = holdfast_robust_trylock(&page->robust);
    if (taken == ENOTSUP) return;
    CHECK(taken == 0);
    CHECK(holdfast_robust_lock(&page->robust) == EDEADLK);
    CHECK(holdfast_robust_unlock(&page->robust) == 0);
    CHECK(holdfast_robust_unlock(&page->robust) == EPERM);
    CHECK(holdfast_robust_consistent(&page->robust) == EPERM);
}
#else
static void work_on_robust(struct page *page) { (void)page; }
static void misuse_of_robust(struct page *page) { (void)page; }
#endif

static holdfast_mutex_t counted = HOLDFAST_MUTEX_INITIALIZER;
static unsigned long count;
static holdfast_once_t once = HOLDFAST_ONCE_INITIALIZER;
static int runs;

static void run_once(void) { runs++; }

static void *thread(void *none) {
    holdfast_once_call(&once, run_once);
    for (int round = 0; round < 20000; round++) {
        holdfast_hold_t hold = holdfast_hold();
        CHECK(holdfast_mutex_lock(&counted) == 0);
        count++;
        CHECK(holdfast_mutex_unlock(&counted) == 0);
        holdfast_hold_end(hold);
    }
    work_on_page(&here, 2000);
    return none;
}

static void timeouts(void) {
    static holdfast_mutex_t mutex;
    static holdfast_cond_t cond;
    static holdfast_rwlock_t rwlock;
    struct timespec wrong = {0, 1000000000};
    CHECK(holdfast_mutex_trylock(&mutex) == 0 && holdfast_mutex_trylock(&mutex) == EBUSY);
    CHECK(holdfast_rwlock_trywrlock(&rwlock) == 0 && holdfast_rwlock_tryrdlock(&rwlock) == EBUSY);
    CHECK(holdfast_rwlock_trywrlock(&rwlock) == EBUSY);
    CHECK(holdfast_mutex_clocklock(&mutex, HOLDFAST_CLOCK_MONOTONIC, &wrong) == EINVAL);
    for (int clock = HOLDFAST_CLOCK_REALTIME; clock <= HOLDFAST_CLOCK_MONOTONIC; clock++) {
        struct timespec until = soon(clock);
        CHECK(holdfast_mutex_clocklock(&mutex, clock, &until) == ETIMEDOUT);
        CHECK(holdfast_rwlock_clockrdlock(&rwlock, clock, &until) == ETIMEDOUT);
        CHECK(holdfast_rwlock_clockwrlock(&rwlock, clock, &until) == ETIMEDOUT);
        CHECK(holdfast_cond_clockwait(&cond, &mutex, clock, &until) == ETIMEDOUT);
    }
    CHECK(holdfast_rwlock_wrunlock(&rwlock) == 0 && holdfast_mutex_unlock(&mutex) == 0);
}

static void threads(void) {
    pthread_t others[4];
    for (int n = 0; n < 4; n++) CHECK(pthread_create(&others[n], NULL, thread, NULL) == 0);
    for (int n = 0; n < 4; n++) CHECK(pthread_join(others[n], NULL) == 0);
    CHECK(count == 80000 && runs == 1 && here.count == 8000 && here.first == 2000 && !(counted.word & ~HOLDFAST_ARRIVES));
    timeouts();
    misuse_of_robust(&here);
    CHECK((holdfast_hold_status() == HOLDFAST_HOLD_WORKS) == (holdfast_hold().area != NULL));
}

int main(int arguments, char **argument) {
    void *place;
    if (arguments == 2) {
        threads();
        return 0;
    }
    CHECK(arguments >= 3);
    place = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argument[2]), 0);
    CHECK(place != MAP_FAILED);
    if (strcmp(argument[1], "page") == 0) work_on_page((struct page *)place, (unsigned)atoi(argument[3]));
    if (strcmp(argument[1], "robust") == 0) work_on_robust((struct page *)place);
    return 0;
}
