/* What timed waits ask of the kernel, by a `syscall` of this program's own: the deadline as it was given, on the clock that was named, again
 * after each answer that is no wake-up. Neither clock is read for it. So a wait on CLOCK_REALTIME ends by that clock however it is
 * set, which is the kernel's work, and one on CLOCK_MONOTONIC does not know of it.
 *
 * Built with PTHREAD the waits are those of pthread, for the library of `preload`. */
#include "holdfast.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what)                                                    \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            abort();                                                   \
        }                                                              \
    } while (0)

static const struct timespec until = {4000000000, 5};
static const int answers[] = {EINTR, EAGAIN, EINTR, ETIMEDOUT};
static unsigned waits;
static int expected_flag, realtime_reads;

long syscall(long number, ...) {
    static long (*real)(long, ...);
    long a[6];
    va_list list;
    va_start(list, number);
    for (int n = 0; n < 6; n++) a[n] = va_arg(list, long);
    va_end(list);
    if (number == SYS_clock_gettime && (int)a[0] == CLOCK_REALTIME) realtime_reads++;
    if (number == SYS_futex && ((int)a[1] & 127) == HOLDFAST_FUTEX_WAIT_BITSET) {
        const struct timespec *given = (const struct timespec *)a[3];
        CHECK(given && given->tv_sec == until.tv_sec && given->tv_nsec == until.tv_nsec);
        CHECK(((int)a[1] & HOLDFAST_FUTEX_CLOCK_REALTIME) == expected_flag);
        CHECK(waits < sizeof answers / sizeof *answers);
        errno = answers[waits++];
        return -1;
    }
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void expect(int clock) {
    expected_flag = clock == CLOCK_REALTIME ? HOLDFAST_FUTEX_CLOCK_REALTIME : 0;
    waits = 0;
}

/* A condition may end its wait without a notification. */
static void timed_out(int result, int may_end_early) {
    CHECK(result == ETIMEDOUT ? waits == 4 : may_end_early && result == 0 && waits > 0);
    CHECK(realtime_reads == 0);
}

#ifdef PTHREAD
int main(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    for (int clock = CLOCK_REALTIME; clock <= CLOCK_MONOTONIC; clock++) {
        pthread_condattr_t attributes;
        pthread_cond_t by_default, named = PTHREAD_COND_INITIALIZER;
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, clock);
        pthread_cond_init(&by_default, &attributes);
        expect(clock);
        timed_out(pthread_mutex_clocklock(&mutex, clock, &until), 0);
        expect(clock);
        timed_out(pthread_cond_timedwait(&by_default, &mutex, &until), 1);
        expect(clock);
        timed_out(pthread_cond_clockwait(&named, &mutex, clock, &until), 1);
    }
    expect(CLOCK_REALTIME);
    timed_out(pthread_mutex_timedlock(&mutex, &until), 0);
    puts("ok");
}
#else
int main(void) {
    static holdfast_mutex_t mutex;
    static holdfast_cond_t cond;
    static holdfast_rwlock_t rwlock;
    CHECK(holdfast_mutex_trylock(&mutex) == 0 && holdfast_rwlock_trywrlock(&rwlock) == 0);
    for (int clock = CLOCK_REALTIME; clock <= CLOCK_MONOTONIC; clock++) {
        expect(clock);
        timed_out(holdfast_mutex_clocklock(&mutex, clock, &until), 0);
        expect(clock);
        timed_out(holdfast_rwlock_clockrdlock(&rwlock, clock, &until), 0);
        expect(clock);
        timed_out(holdfast_rwlock_clockwrlock(&rwlock, clock, &until), 0);
        expect(clock);
        timed_out(holdfast_cond_clockwait(&cond, &mutex, clock, &until), 1);
    }
    puts("ok");
}
#endif
