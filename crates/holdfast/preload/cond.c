/* pthread_cond_*. A condition of one process is holdfast's; a process-shared one is the C library's.
 *
 * | word | meaning |
 * |---|---|
 * | 0 | counts notifications; wraps. Waiters sleep on it |
 * | 1 | sleepers that no notification has woken, or more: a notification without any costs no system call |
 * | 2 | threads inside a wait that may still touch this memory; bit 31: a destroyer sleeps on it |
 * | 3 | the mark of a condition that is counted |
 * | 7 or 9 | glibc's flags, where this glibc has them: bit 0 process-shared, bit 1 CLOCK_MONOTONIC |
 *
 * Zeros are PTHREAD_COND_INITIALIZER. This is the protocol of src/condvar.rs with two additions. The notifier subtracts from word 1 those
 * that it woke, so that a thread which notifies often does not call the kernel until the woken one has run. And destroy waits for the
 * threads inside, because POSIX allows it right after a broadcast.
 *
 * No sleeper is lost: word 1 is at least the number of threads that sleep. Each adds itself under the mutex before it sleeps; it is
 * subtracted by itself if its sleep ended otherwise, or by the notifier whose wake-up ended its sleep. A cancelled thread does not know
 * which it was and leaves the count too high, which costs system calls and nothing else. So does a late wake-up of a lock that had this
 * memory before. */
#include "preload.h"

#pragma weak pthread_setcanceltype
#pragma weak pthread_testcancel
#pragma weak pthread_condattr_getclock
#pragma weak pthread_condattr_getpshared
#pragma weak __pthread_register_cancel
#pragma weak __pthread_unregister_cancel
#pragma weak __pthread_unwind_next

struct words {
    uint32_t notified, sleepers, inside, mark, rest[8];
};
_Static_assert(sizeof(struct words) == sizeof(pthread_cond_t), "the layout of a condition is another one");

#define DESTROYED UINT32_C(0x80000000)
#define FLAG_PSHARED 1u
#define FLAG_MONOTONIC 2u
/* How long a wait on a process-shared condition with a mutex of holdfast lasts at most before it ends without a notification. */
#define LONGEST_MIXED_NS 5000000

static inline struct words *words_of(pthread_cond_t *cond) { return (struct words *)(void *)cond; }

static inline uint32_t flags_of(pthread_cond_t *cond) {
    return __atomic_load_n((uint32_t *)(void *)cond + hf_cond_flags_at(), __ATOMIC_RELAXED);
}

__attribute__((noinline)) static int is_left_at_first_use(pthread_cond_t *cond) {
    uint32_t mark = 0;
    if (!hf_is_glibc() || (flags_of(cond) & FLAG_PSHARED)) return 1;
    if (__atomic_compare_exchange_n(&words_of(cond)->mark, &mark, HF_MARK, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        hf_count(HF_served_conditions);
    return 0;
}

/* The flags come first: word 3 of a process-shared condition is glibc's, and may hold any value. */
static inline int is_left(pthread_cond_t *cond) {
    int is_ours = !(flags_of(cond) & FLAG_PSHARED) && words_of(cond)->mark == HF_MARK;
    return HF_LIKELY(is_ours && hf_is_glibc()) ? 0 : is_left_at_first_use(cond);
}

HF_EXPORT int pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes) {
    int shared = PTHREAD_PROCESS_PRIVATE;
    clockid_t clock = CLOCK_REALTIME;
    if (attributes && hf_is_glibc()) {
        if (pthread_condattr_getpshared) pthread_condattr_getpshared(attributes, &shared);
        if (pthread_condattr_getclock) pthread_condattr_getclock(attributes, &clock);
    }
    if (!hf_is_glibc() || shared != PTHREAD_PROCESS_PRIVATE) {
        hf_count(hf_is_glibc() ? HF_left_condition_process_shared : HF_left_unknown_c_library);
        return hf_real()->pthread_cond_init(cond, attributes);
    }
    *cond = (pthread_cond_t){.__size = {0}};
    ((uint32_t *)(void *)cond)[hf_cond_flags_at()] = clock == CLOCK_MONOTONIC ? FLAG_MONOTONIC : 0;
    words_of(cond)->mark = HF_MARK;
    hf_count(HF_served_conditions);
    return 0;
}

HF_EXPORT int pthread_cond_destroy(pthread_cond_t *cond) {
    struct words *words = words_of(cond);
    uint32_t inside;
    if (is_left(cond)) return hf_real()->pthread_cond_destroy(cond);
    inside = __atomic_fetch_or(&words->inside, DESTROYED, __ATOMIC_ACQ_REL) | DESTROYED;
    while (inside != DESTROYED) {
        holdfast_futex_wait(&words->inside, inside, HOLDFAST_ANY, 0, NULL, HOLDFAST_PRIVATE);
        inside = __atomic_load_n(&words->inside, __ATOMIC_ACQUIRE);
    }
    /* A condition that is used again without pthread_cond_init works as a new one, as glibc's does. */
    __atomic_store_n(&words->inside, 0, __ATOMIC_RELAXED);
    return 0;
}

static void notify(struct words *words, uint32_t most) {
    uint32_t woken;
    if (__atomic_load_n(&words->sleepers, __ATOMIC_RELAXED) == 0) return;
    __atomic_fetch_add(&words->notified, 1, __ATOMIC_RELAXED);
    woken = holdfast_futex_wake(&words->notified, most, HOLDFAST_ANY, HOLDFAST_PRIVATE);
    if (woken) __atomic_fetch_sub(&words->sleepers, woken, __ATOMIC_RELAXED);
}

HF_EXPORT int pthread_cond_signal(pthread_cond_t *cond) {
    if (is_left(cond)) return hf_real()->pthread_cond_signal(cond);
    notify(words_of(cond), 1);
    return 0;
}

HF_EXPORT int pthread_cond_broadcast(pthread_cond_t *cond) {
    if (is_left(cond)) return hf_real()->pthread_cond_broadcast(cond);
    notify(words_of(cond), INT_MAX);
    return 0;
}

/* The last access of a waiter: from here on a destroyer may free the memory. The wake-up goes by the address alone. */
static void leave(struct words *words) {
    if (__atomic_sub_fetch(&words->inside, 1, __ATOMIC_ACQ_REL) == DESTROYED)
        holdfast_futex_wake(&words->inside, INT_MAX, HOLDFAST_ANY, HOLDFAST_PRIVATE);
}

/* glibc counts those that wait with a mutex among its users, so that pthread_mutex_destroy refuses it. */
static void starts_using(pthread_mutex_t *mutex) { __atomic_fetch_add(&mutex->__data.__nusers, 1, __ATOMIC_RELAXED); }

static void stops_using(pthread_mutex_t *mutex) { __atomic_fetch_sub(&mutex->__data.__nusers, 1, __ATOMIC_RELAXED); }

struct wait {
    pthread_cond_t *cond;
    pthread_mutex_t *mutex;
};

/* A cancelled thread passes on the notification that it may have used up, and holds the mutex in the program's handlers. */
static void pass_on(void *data) {
    struct wait *wait = data;
    notify(words_of(wait->cond), 1);
    leave(words_of(wait->cond));
    pthread_mutex_lock(wait->mutex);
    stops_using(wait->mutex);
}

static void only_lock(void *data) { pthread_mutex_lock(data); }

/* Whether pthread_cancel was ever called, and how many calls have not returned yet. */
static uint32_t cancels, cancels_under_way;

HF_EXPORT int pthread_cancel(pthread_t thread) {
    int result;
    __atomic_store_n(&cancels, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&cancels_under_way, 1, __ATOMIC_SEQ_CST);
    result = hf_real()->pthread_cancel(thread);
    __atomic_fetch_sub(&cancels_under_way, 1, __ATOMIC_SEQ_CST);
    return result;
}

/* glibc sends a signal to a thread that may be cancelled at any instruction, and marks it as cancelled when that arrives. If it
 * arrives after the wait, the thread lives on and is reported as cancelled. glibc's own waits end after the signal has come
 * (nptl/cancellation.c, __pthread_disable_asynccancel); so does this one. */
static void meet_signals_under_way(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&cancels, __ATOMIC_RELAXED) == 0) return;
    while (__atomic_load_n(&cancels_under_way, __ATOMIC_SEQ_CST) != 0) syscall(SYS_sched_yield);
    /* A signal that was sent is handled at the end of any system call. */
    syscall(SYS_getppid);
    pthread_testcancel();
}

/* Cancellation may end the thread in here, and only in here. */
static int sleep_cancellably(struct words *words, uint32_t notified, clockid_t clock, const struct timespec *until) {
    int type, result = ETIMEDOUT;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    /* The kernel takes no time before 1970. */
    if (!until || hf_judge_time(until) == 0)
        result = holdfast_futex_wait(&words->notified, notified, HOLDFAST_ANY, clock, until, HOLDFAST_PRIVATE);
    pthread_setcanceltype(type, NULL);
    if (type == PTHREAD_CANCEL_DEFERRED) meet_signals_under_way();
    return result;
}

/* A sleep that a signal of the program ends is continued. One that a wake-up ends is over, also where word 0 is the same: its notifier
 * may have counted up before this thread read the word, and has subtracted it. */
static int sleep_until_notified(struct words *words, uint32_t notified, clockid_t clock, const struct timespec *until) {
    for (;;) {
        int result = sleep_cancellably(words, notified, clock, until);
        if (result != EINTR || __atomic_load_n(&words->notified, __ATOMIC_RELAXED) != notified) return result;
    }
}

static int wait_on(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    struct words *words = words_of(cond);
    struct wait wait = {cond, mutex};
    uint32_t notified;
    int result, relocked;
    __atomic_fetch_add(&words->inside, 1, __ATOMIC_RELAXED);
    /* A thread that changes the program's data under the mutex after this sees the sleeper: the mutex orders the two. */
    __atomic_fetch_add(&words->sleepers, 1, __ATOMIC_RELAXED);
    notified = __atomic_load_n(&words->notified, __ATOMIC_RELAXED);
    starts_using(mutex);
    result = pthread_mutex_unlock(mutex);
    if (result != 0) {
        __atomic_fetch_sub(&words->sleepers, 1, __ATOMIC_RELAXED);
        stops_using(mutex);
        leave(words);
        return result;
    }
    pthread_cleanup_push(pass_on, &wait);
    result = sleep_until_notified(words, notified, clock, until);
    pthread_cleanup_pop(0);
    /* 0: the notifier has subtracted this sleeper. */
    if (result != 0) __atomic_fetch_sub(&words->sleepers, 1, __ATOMIC_RELAXED);
    leave(words);
    relocked = pthread_mutex_lock(mutex);
    stops_using(mutex);
    if (relocked != 0) return relocked;
    return result == ETIMEDOUT ? ETIMEDOUT : 0;
}

static struct timespec after(clockid_t clock, long ns) {
    struct timespec time = {0, 0};
    syscall(SYS_clock_gettime, clock, &time);
    time.tv_nsec += ns;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

static int is_over(clockid_t clock, const struct timespec *until) {
    struct timespec now = after(clock, 0);
    return now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec);
}

/* A process-shared condition with a mutex of holdfast, which the C library cannot unlock. It waits with a mutex that only this call knows.
 * A notification between the two can be missed, so the wait ends after some milliseconds, and the program looks at its data again. */
static int wait_mixed(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    pthread_mutex_t between = PTHREAD_MUTEX_INITIALIZER;
    struct timespec soon = after(flags_of(cond) & FLAG_MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME, LONGEST_MIXED_NS);
    int relocked, result = pthread_mutex_unlock(mutex);
    if (result != 0) return result;
    pthread_cleanup_push(only_lock, mutex);
    hf_real()->pthread_mutex_lock(&between);
    hf_real()->pthread_cond_timedwait(cond, &between, &soon);
    hf_real()->pthread_mutex_unlock(&between);
    pthread_cleanup_pop(0);
    relocked = pthread_mutex_lock(mutex);
    if (relocked != 0) return relocked;
    return until && is_over(clock, until) ? ETIMEDOUT : 0;
}

HF_EXPORT int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    if (!is_left(cond)) return wait_on(cond, mutex, CLOCK_REALTIME, NULL);
    if (!hf_is_glibc() || hf_mutex_is_left(mutex)) return hf_real()->pthread_cond_wait(cond, mutex);
    return wait_mixed(cond, mutex, CLOCK_MONOTONIC, NULL);
}

HF_EXPORT int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until) {
    clockid_t clock;
    if (!hf_is_glibc()) return hf_real()->pthread_cond_timedwait(cond, mutex, until);
    if (hf_judge_time(until) == EINVAL) return EINVAL;
    clock = flags_of(cond) & FLAG_MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    if (!is_left(cond)) return wait_on(cond, mutex, clock, until);
    if (hf_mutex_is_left(mutex)) return hf_real()->pthread_cond_timedwait(cond, mutex, until);
    return wait_mixed(cond, mutex, clock, until);
}

HF_EXPORT int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    if (!hf_is_glibc()) return hf_real()->pthread_cond_clockwait(cond, mutex, clock, until);
    if (hf_judge_time(until) == EINVAL || !hf_is_clock(clock)) return EINVAL;
    if (!is_left(cond)) return wait_on(cond, mutex, clock, until);
    if (hf_mutex_is_left(mutex)) return hf_real()->pthread_cond_clockwait(cond, mutex, clock, until);
    return wait_mixed(cond, mutex, clock, until);
}
