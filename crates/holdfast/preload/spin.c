/* pthread_spin_*, with glibc's words: on x86-64 1 is free (sysdeps/x86_64/nptl/pthread_spin_lock.S), elsewhere 0. So a process-shared
 * lock works where other processes are without this library. A lock of four bytes does not say who shares it: waiters look, ever more
 * seldom, then give their CPU away, then sleep for a while. No release wakes them. */
#include "preload.h"
#include <sched.h>

#if defined(__x86_64__)
#define FREE 1
#define HELD 0
#else
#define FREE 0
#define HELD 1
#endif
/* Where the holder is not on a CPU, the yields let it run; sleeps are for one that is behind others. */
#define YIELDS 8
#define SHORTEST_SLEEP_NS 20000
#define LONGEST_SLEEP_NS 500000

static inline int *word_of(pthread_spinlock_t *lock) { return (int *)(void *)lock; }

HF_EXPORT int pthread_spin_init(pthread_spinlock_t *lock, int shared) {
    hf_count(HF_served_spinlocks);
    if (!hf_is_glibc()) return hf_real()->pthread_spin_init(lock, shared);
    __atomic_store_n(word_of(lock), FREE, __ATOMIC_RELAXED);
    return 0;
}

HF_EXPORT int pthread_spin_destroy(pthread_spinlock_t *lock) {
    return hf_is_glibc() ? 0 : hf_real()->pthread_spin_destroy(lock);
}

static inline int take(int *word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED) == FREE && __atomic_exchange_n(word, HELD, __ATOMIC_ACQUIRE) == FREE;
}

__attribute__((noinline)) static int wait_for(int *word) {
    struct timespec rest = {0, SHORTEST_SLEEP_NS};
    for (uint32_t round = 0;; round++) {
        for (uint32_t look = 0; look < HOLDFAST_LOOKS; look++) {
            if (take(word)) return 0;
            holdfast_pause(look);
        }
        if (round < YIELDS) {
            syscall(SYS_sched_yield);
        } else {
            int before = errno;
            syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &rest, NULL);
            errno = before;
            if (rest.tv_nsec < LONGEST_SLEEP_NS) rest.tv_nsec *= 2;
        }
    }
}

HF_EXPORT int pthread_spin_lock(pthread_spinlock_t *lock) {
    if (!hf_is_glibc()) return hf_real()->pthread_spin_lock(lock);
    return HF_LIKELY(__atomic_exchange_n(word_of(lock), HELD, __ATOMIC_ACQUIRE) == FREE) ? 0 : wait_for(word_of(lock));
}

HF_EXPORT int pthread_spin_trylock(pthread_spinlock_t *lock) {
    if (!hf_is_glibc()) return hf_real()->pthread_spin_trylock(lock);
    return take(word_of(lock)) ? 0 : EBUSY;
}

HF_EXPORT int pthread_spin_unlock(pthread_spinlock_t *lock) {
    if (!hf_is_glibc()) return hf_real()->pthread_spin_unlock(lock);
    __atomic_store_n(word_of(lock), FREE, __ATOMIC_RELEASE);
    return 0;
}
