/* pthread_rwlock_*. holdfast lets a writer that waits in before readers that come later. glibc's default lets readers in, and programs
 * take a read lock twice because of it; so only the kind PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP of one process is holdfast's.
 *
 * | word | meaning |
 * |---|---|
 * | 0, 1 | holdfast_rwlock_t |
 * | 2 | threads that give the lock back and may still touch it; bit 31: a destroyer sleeps on it |
 * | 4 | the mark of a lock that is counted; glibc does not use the word (`__pad3`) |
 *
 * The writer's id and the flags stand where glibc has them. */
#include "preload.h"

#pragma weak pthread_rwlockattr_getkind_np
#pragma weak pthread_rwlockattr_getpshared

#define DESTROYED UINT32_C(0x80000000)
#define WRITER_FIRST PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP

struct words {
    holdfast_rwlock_t lock;
    uint32_t leaving, unused, mark;
};
_Static_assert(offsetof(struct words, mark) == offsetof(pthread_rwlock_t, __data.__pad3) &&
                   offsetof(pthread_rwlock_t, __data.__cur_writer) == 24,
               "the layout of a read-write lock is another one");

static inline struct words *words_of(pthread_rwlock_t *lock) { return (struct words *)(void *)lock; }

/* Decided by what glibc itself writes, so that it holds for static initialisers and in each process of a shared lock. */
static inline int is_ours(pthread_rwlock_t *lock) {
    return lock->__data.__flags == WRITER_FIRST && lock->__data.__shared == 0 && hf_is_glibc();
}

static void count(pthread_rwlock_t *lock) {
    uint32_t seen = 0;
    int is_first = __atomic_compare_exchange_n(&words_of(lock)->mark, &seen, HF_MARK, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (is_first)
        hf_count(is_ours(lock)             ? HF_served_rwlocks
                 : lock->__data.__shared   ? HF_left_rwlock_process_shared
                                           : HF_left_rwlock_prefers_readers);
}

/* Whether the C library has it. */
static inline int is_left(pthread_rwlock_t *lock) {
    if (!hf_is_glibc()) return 1;
    if (!HF_LIKELY(words_of(lock)->mark == HF_MARK)) count(lock);
    return !is_ours(lock);
}

HF_EXPORT int pthread_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attributes) {
    int result = hf_real()->pthread_rwlock_init(lock, attributes);
    if (result == 0 && hf_is_glibc()) count(lock);
    if (!hf_is_glibc()) hf_count(HF_left_unknown_c_library);
    return result;
}

HF_EXPORT int pthread_rwlock_destroy(pthread_rwlock_t *lock) {
    struct words *words = words_of(lock);
    uint32_t leaving;
    if (is_left(lock)) return hf_real()->pthread_rwlock_destroy(lock);
    leaving = __atomic_fetch_or(&words->leaving, DESTROYED, __ATOMIC_ACQ_REL) | DESTROYED;
    while (leaving != DESTROYED) {
        holdfast_futex_wait(&words->leaving, leaving, HOLDFAST_ANY, 0, NULL, HOLDFAST_PRIVATE);
        leaving = __atomic_load_n(&words->leaving, __ATOMIC_ACQUIRE);
    }
    __atomic_store_n(&words->leaving, 0, __ATOMIC_RELAXED);
    return 0;
}

static inline int is_writer(pthread_rwlock_t *lock) {
    return __atomic_load_n(&lock->__data.__cur_writer, __ATOMIC_RELAXED) == hf_self();
}

static inline int written(pthread_rwlock_t *lock, int result) {
    if (result == 0) __atomic_store_n(&lock->__data.__cur_writer, hf_self(), __ATOMIC_RELAXED);
    return result;
}

/* As many as the count holds have it: waiting would be for one of them. */
static inline int is_full(pthread_rwlock_t *lock) {
    uint32_t state = __atomic_load_n(&words_of(lock)->lock.state, __ATOMIC_RELAXED);
    return (state & HOLDFAST_WRITTEN) == HOLDFAST_WRITTEN - 1;
}

static int read_until(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until) {
    int wrong = until ? hf_judge_time(until) : 0;
    if (wrong == EINVAL) return EINVAL;
    if (is_writer(lock)) return EDEADLK;
    if (holdfast_rwlock_tryrdlock(&words_of(lock)->lock) == 0) return 0;
    if (is_full(lock)) return EAGAIN;
    return wrong ? wrong : holdfast_rwlock_clockrdlock(&words_of(lock)->lock, clock, until);
}

static int write_until(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until) {
    int wrong = until ? hf_judge_time(until) : 0;
    if (wrong == EINVAL) return EINVAL;
    if (is_writer(lock)) return EDEADLK;
    if (holdfast_rwlock_trywrlock(&words_of(lock)->lock) == 0) return written(lock, 0);
    return wrong ? wrong : written(lock, holdfast_rwlock_clockwrlock(&words_of(lock)->lock, clock, until));
}

HF_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
    return is_left(lock) ? hf_real()->pthread_rwlock_rdlock(lock) : read_until(lock, 0, NULL);
}

HF_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
    return is_left(lock) ? hf_real()->pthread_rwlock_wrlock(lock) : write_until(lock, 0, NULL);
}

HF_EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t *lock) {
    if (is_left(lock)) return hf_real()->pthread_rwlock_tryrdlock(lock);
    if (holdfast_rwlock_tryrdlock(&words_of(lock)->lock) == 0) return 0;
    return is_full(lock) ? EAGAIN : EBUSY;
}

HF_EXPORT int pthread_rwlock_trywrlock(pthread_rwlock_t *lock) {
    if (is_left(lock)) return hf_real()->pthread_rwlock_trywrlock(lock);
    return written(lock, holdfast_rwlock_trywrlock(&words_of(lock)->lock));
}

HF_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *lock, const struct timespec *until) {
    if (is_left(lock)) return hf_real()->pthread_rwlock_timedrdlock(lock, until);
    return read_until(lock, CLOCK_REALTIME, until);
}

HF_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *lock, const struct timespec *until) {
    if (is_left(lock)) return hf_real()->pthread_rwlock_timedwrlock(lock, until);
    return write_until(lock, CLOCK_REALTIME, until);
}

HF_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until) {
    if (is_left(lock)) return hf_real()->pthread_rwlock_clockrdlock(lock, clock, until);
    return hf_is_clock(clock) ? read_until(lock, clock, until) : EINVAL;
}

HF_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until) {
    if (is_left(lock)) return hf_real()->pthread_rwlock_clockwrlock(lock, clock, until);
    return hf_is_clock(clock) ? write_until(lock, clock, until) : EINVAL;
}

/* The next owner may destroy the lock while this thread still wakes others: then it stands in `leaving` since before it gave the lock
 * back. Where no thread waits, one exchange gives it back and is the last access. */
HF_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *lock) {
    struct words *words = words_of(lock);
    uint32_t state, held;
    if (is_left(lock)) return hf_real()->pthread_rwlock_unlock(lock);
    state = __atomic_load_n(&words->lock.state, __ATOMIC_RELAXED);
    held = (state & HOLDFAST_WRITTEN) == HOLDFAST_WRITTEN ? HOLDFAST_WRITTEN : 1;
    if (held == HOLDFAST_WRITTEN) __atomic_store_n(&lock->__data.__cur_writer, 0, __ATOMIC_RELAXED);
    while (!(state & HOLDFAST_BOTH_WAIT))
        if (__atomic_compare_exchange_n(&words->lock.state, &state, state - held, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) return 0;
    __atomic_fetch_add(&words->leaving, 1, __ATOMIC_RELAXED);
    if (held == HOLDFAST_WRITTEN)
        holdfast_rwlock_wrunlock(&words->lock);
    else
        holdfast_rwlock_rdunlock(&words->lock);
    if (__atomic_sub_fetch(&words->leaving, 1, __ATOMIC_ACQ_REL) == DESTROYED)
        holdfast_futex_wake(&words->leaving, INT_MAX, HOLDFAST_ANY, HOLDFAST_PRIVATE);
    return 0;
}

/* As in mutex.c. */
#define ALIAS(name) __asm__(".globl __" #name "\n.set __" #name ", " #name)
ALIAS(pthread_rwlock_init);
ALIAS(pthread_rwlock_destroy);
ALIAS(pthread_rwlock_rdlock);
ALIAS(pthread_rwlock_wrlock);
ALIAS(pthread_rwlock_tryrdlock);
ALIAS(pthread_rwlock_trywrlock);
ALIAS(pthread_rwlock_unlock);
