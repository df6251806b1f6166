/* holdfast.h: the locks of the Rust crate `holdfast`, on the same memory layout, for C11 and C++17 on Linux.
 *
 * Every function is `static inline`: there is no library to link. Functions return 0 or an error of errno(3), as those of
 * pthread(3) do. A lock of zeros is a free lock, so static locks and fresh shared memory need no initialiser.
 *
 * Each function that waits or wakes has a twin with the suffix `_pshared`, for locks in memory that several processes have mapped.
 * All users of a lock take the same of the two. Deadlines are absolute, on HOLDFAST_CLOCK_REALTIME or HOLDFAST_CLOCK_MONOTONIC.
 *
 * The protocols are explained where the Rust code has them: src/mutex/raw.rs, src/rwlock/raw.rs, src/condvar.rs, src/once.rs,
 * src/robust, src/hold. Over 600 lines because it is one file that a program can take in alone.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#else
/* Strict C11 does not declare it. */
extern long syscall(long number, ...);
#endif

#define HOLDFAST_CLOCK_REALTIME 0
#define HOLDFAST_CLOCK_MONOTONIC 1
/* linux/futex.h, which older C libraries' headers contradict. */
#define HOLDFAST_PRIVATE 128
#define HOLDFAST_PSHARED 0
#define HOLDFAST_FUTEX_WAIT_BITSET 9
#define HOLDFAST_FUTEX_WAKE_BITSET 10
#define HOLDFAST_FUTEX_CLOCK_REALTIME 256
#define HOLDFAST_ANY 0xffffffffu

/* A point of a critical section, in the ELF note .note.holdup, by which holdup attributes switches to locks: 1 acquired, 2 released,
 * 3 waiting, 4 waiting no longer. No instruction; format in src/note.rs. */
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(HOLDFAST_NO_NOTES)
#define HOLDFAST_POINT(kind, number, name)                                                                          \
    __asm__ __volatile__("991:\n.pushsection .note.holdup,\"?\",@note\n.balign 4\n.4byte 7, 993f - 992f, 1\n"         \
                         ".asciz \"holdup\"\n.balign 4\n992:\n.8byte 991b\n.2byte " #kind ", 0\n.4byte " #number "\n" \
                         ".asciz \"" name "\"\n993:\n.balign 4\n.popsection" ::: "memory")
#else
#define HOLDFAST_POINT(kind, number, name) ((void)0)
#endif
#define HOLDFAST_MUTEX_POINT(kind) HOLDFAST_POINT(kind, 1751539713, "holdfast: mutex")
#define HOLDFAST_WRITE_POINT(kind) HOLDFAST_POINT(kind, 1751539714, "holdfast: rwlock, writer")
#define HOLDFAST_READ_POINT(kind) HOLDFAST_POINT(kind, 1751539715, "holdfast: rwlock, reader")

/* --- the kernel's queue --- */

/* 0: another thread woke this one. ETIMEDOUT. EAGAIN, EINTR and others: no wake-up was used up. */
static inline int holdfast_futex_wait(uint32_t *word, uint32_t expected, uint32_t mask, int clock,
                                      const struct timespec *until, int flag) {
    int realtime = until && clock == HOLDFAST_CLOCK_REALTIME ? HOLDFAST_FUTEX_CLOCK_REALTIME : 0;
    int op = HOLDFAST_FUTEX_WAIT_BITSET | flag | realtime;
    int before = errno, result;
    result = syscall(SYS_futex, word, op, expected, until, NULL, mask) == 0 ? 0 : errno;
    errno = before;
    return result;
}

static inline uint32_t holdfast_futex_wake(uint32_t *word, uint32_t most, uint32_t mask, int flag) {
    int before = errno;
    long woken = syscall(SYS_futex, word, HOLDFAST_FUTEX_WAKE_BITSET | flag, most, NULL, NULL, mask);
    errno = before;
    return woken > 0 ? (uint32_t)woken : 0;
}

/* Acquire and release always: on x86 it is the same instruction. */
static inline int holdfast_cas(uint32_t *word, uint32_t *seen, uint32_t to) {
    return __atomic_compare_exchange_n(word, seen, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

#define HOLDFAST_LOOKS 7u
#define HOLDFAST_LONGEST_PAUSE 5u

static inline void holdfast_pause(uint32_t look) {
    for (uint32_t n = 0; n < (4u << (look < HOLDFAST_LOOKS ? look : HOLDFAST_LONGEST_PAUSE)); n++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ __volatile__("isb" ::: "memory");
#else
        __asm__ __volatile__("" ::: "memory");
#endif
    }
}

#define HOLDFAST_LOOKS_RWLOCK 4u
#define HOLDFAST_LOOKS_OF_MANY 2u
#define HOLDFAST_FEW 4u
#define HOLDFAST_LOOKS_WITHOUT_SLEEPERS 27u
#define HOLDFAST_MOST_IN_VAIN 16u
#define HOLDFAST_FAILURE 4u
#define HOLDFAST_BETWEEN_HANDOVERS_US 500u
#define HOLDFAST_REST_PER_STANDSTILL 1024u
#define HOLDFAST_LONGEST_REST_US 2000000u
#define HOLDFAST_SHORTEST_STANDSTILL_US 31u
#define HOLDFAST_LONGEST_STANDSTILL_US 200000u
#define HOLDFAST_LATE_US 2000u

static inline int holdfast_is_time(const struct timespec *until) {
    return until->tv_sec >= 0 && until->tv_nsec >= 0 && until->tv_nsec < 1000000000;
}

/* --- mutex: 4 bytes --- */

typedef struct {
    uint32_t word;
} holdfast_mutex_t;
#define HOLDFAST_MUTEX_INITIALIZER {0}

#define HOLDFAST_LOCKED 1u
#define HOLDFAST_GRANTED 2u
#define HOLDFAST_WOKEN 4u
#define HOLDFAST_ONE_RELEASE 8u
#define HOLDFAST_LATE 0x200u
#define HOLDFAST_ARRIVES 0x3fcu
#define HOLDFAST_SLEEPERS 0x80000000u

/* What a program or a library remembers of the locks at some addresses. */
typedef struct {
    uint32_t handed_over_us, not_before_us, woke_us;
    uint32_t looking;  /* for long */
    uint32_t sleeping; /* until they have a CPU */
    uint32_t in_vain;  /* longer looks */
} holdfast_place_t;
__attribute__((weak, visibility("hidden"))) holdfast_place_t holdfast_places[64];

static inline holdfast_place_t *holdfast_place(const void *lock) {
    uintptr_t address = (uintptr_t)lock;
    return &holdfast_places[(address >> 3 ^ address >> 9) % 64];
}

static inline uint32_t holdfast_now_us(void) {
    struct timespec now = {0, 0};
    syscall(SYS_clock_gettime, HOLDFAST_CLOCK_MONOTONIC, &now);
    return (uint32_t)now.tv_sec * 1000000u + (uint32_t)(now.tv_nsec / 1000);
}

static inline int holdfast_may_hand_over(holdfast_place_t *place, uint32_t now) {
    uint32_t not_before = __atomic_load_n(&place->not_before_us, __ATOMIC_RELAXED);
    if (not_before - now - 1 < HOLDFAST_LONGEST_REST_US) return 0;
    if (!holdfast_cas(&place->not_before_us, &not_before, now + HOLDFAST_BETWEEN_HANDOVERS_US)) return 0;
    __atomic_store_n(&place->handed_over_us, now, __ATOMIC_RELAXED);
    return 1;
}

static inline void holdfast_was_handed_over(const void *lock) {
    holdfast_place_t *place = holdfast_place(lock);
    uint32_t now = holdfast_now_us();
    uint32_t standstill = now - __atomic_load_n(&place->handed_over_us, __ATOMIC_RELAXED), rest = standstill * HOLDFAST_REST_PER_STANDSTILL;
    if (rest > HOLDFAST_LONGEST_REST_US) rest = HOLDFAST_LONGEST_REST_US;
    if (standstill >= HOLDFAST_SHORTEST_STANDSTILL_US && standstill < HOLDFAST_LONGEST_STANDSTILL_US)
        __atomic_store_n(&place->not_before_us, now + rest, __ATOMIC_RELAXED);
}

static inline int holdfast_mutex_may_take(uint32_t word, int was_woken) {
    return !(word & HOLDFAST_LOCKED) || (was_woken && (word & HOLDFAST_GRANTED));
}

/* Where no thread sleeps for the lock there is a CPU for each: a sleep would cost the holder a wake-up. Sleepers of other processes are not
 * known. */
static inline int holdfast_looks_longer(holdfast_place_t *place, uint32_t looks, int flag) {
    uint32_t in_vain;
    if (!flag) return 0;
    in_vain = __atomic_load_n(&place->in_vain, __ATOMIC_RELAXED);
    if (looks == HOLDFAST_LOOKS && in_vain > HOLDFAST_MOST_IN_VAIN) {
        __atomic_store_n(&place->in_vain, in_vain - 1, __ATOMIC_RELAXED);
        return 0;
    }
    return looks < HOLDFAST_LOOKS_WITHOUT_SLEEPERS && !__atomic_load_n(&place->sleeping, __ATOMIC_RELAXED);
}

static inline void holdfast_looked_longer(holdfast_place_t *place, int found_it_free) {
    uint32_t before = __atomic_load_n(&place->in_vain, __ATOMIC_RELAXED), after = before + HOLDFAST_FAILURE;
    if (after > HOLDFAST_MOST_IN_VAIN + HOLDFAST_FAILURE) after = HOLDFAST_MOST_IN_VAIN + HOLDFAST_FAILURE;
    if (found_it_free) after = 0;
    if (after != before) __atomic_store_n(&place->in_vain, after, __ATOMIC_RELAXED);
}

/* looks: how often the thread has looked since it was awake. */
static inline uint32_t holdfast_mutex_look(uint32_t *lock, int was_woken, uint32_t *looks, int flag) {
    uint32_t word = __atomic_load_n(lock, __ATOMIC_RELAXED), *looking = NULL;
    for (; *looks < HOLDFAST_LOOKS || holdfast_looks_longer(holdfast_place(lock), *looks, flag); ++*looks) {
        if (holdfast_mutex_may_take(word, was_woken) || (word & HOLDFAST_GRANTED)) break;
        if (*looks >= HOLDFAST_LOOKS_OF_MANY && !looking) {
            looking = &holdfast_place(lock)->looking;
            if (__atomic_fetch_add(looking, 1, __ATOMIC_RELAXED) >= HOLDFAST_FEW) break;
        }
        holdfast_pause(*looks);
        word = __atomic_load_n(lock, __ATOMIC_RELAXED);
    }
    if (looking) __atomic_fetch_sub(looking, 1, __ATOMIC_RELAXED);
    if (*looks > HOLDFAST_LOOKS) holdfast_looked_longer(holdfast_place(lock), holdfast_mutex_may_take(word, was_woken));
    return word;
}

static inline int holdfast_mutex_wait(uint32_t *lock, int clock, const struct timespec *until, int flag) {
    uint32_t looks = 0;
    int was_woken = 0, result;
    for (;;) {
        uint32_t word = holdfast_mutex_look(lock, was_woken, &looks, flag), arrives = was_woken ? HOLDFAST_ARRIVES : 0, to;
        if (holdfast_mutex_may_take(word, was_woken)) {
            to = (word | HOLDFAST_LOCKED | (was_woken ? HOLDFAST_SLEEPERS : 0)) & ~(HOLDFAST_GRANTED | arrives);
            if (!holdfast_cas(lock, &word, to)) continue;
            if (word & HOLDFAST_GRANTED) holdfast_was_handed_over(lock);
            return 0;
        }
        to = (word | HOLDFAST_SLEEPERS) & ~arrives;
        if (to != word && !holdfast_cas(lock, &word, to)) continue;
        __atomic_fetch_add(&holdfast_place(lock)->sleeping, 1, __ATOMIC_RELAXED);
        result = holdfast_futex_wait(lock, to, HOLDFAST_ANY, clock, until, flag);
        __atomic_fetch_sub(&holdfast_place(lock)->sleeping, 1, __ATOMIC_RELAXED);
        if (result == ETIMEDOUT) return ETIMEDOUT;
        was_woken = result == 0;
        looks = 0;
    }
}

static inline int holdfast_mutex_clocklock_in(holdfast_mutex_t *lock, int clock, const struct timespec *until, int flag) {
    if (__atomic_fetch_or(&lock->word, HOLDFAST_LOCKED, __ATOMIC_ACQUIRE) & HOLDFAST_LOCKED) {
        int result = until && !holdfast_is_time(until) ? EINVAL : 0;
        HOLDFAST_MUTEX_POINT(3);
        if (!result) result = holdfast_mutex_wait(&lock->word, clock, until, flag);
        if (result) {
            HOLDFAST_MUTEX_POINT(4);
            return result;
        }
    }
    HOLDFAST_MUTEX_POINT(1);
    return 0;
}

static inline int holdfast_mutex_lock_in(holdfast_mutex_t *lock, int flag) {
    if (__atomic_fetch_or(&lock->word, HOLDFAST_LOCKED, __ATOMIC_ACQUIRE) & HOLDFAST_LOCKED) {
        HOLDFAST_MUTEX_POINT(3);
        holdfast_mutex_wait(&lock->word, 0, NULL, flag);
    }
    HOLDFAST_MUTEX_POINT(1);
    return 0;
}

static inline int holdfast_mutex_trylock(holdfast_mutex_t *lock) {
    if (__atomic_load_n(&lock->word, __ATOMIC_RELAXED) & HOLDFAST_LOCKED) return EBUSY;
    if (__atomic_fetch_or(&lock->word, HOLDFAST_LOCKED, __ATOMIC_ACQUIRE) & HOLDFAST_LOCKED) return EBUSY;
    HOLDFAST_MUTEX_POINT(1);
    return 0;
}

/* Sleepers or a late thread are to be thought of. Returns what the word becomes, or 1 where the lock was handed over. */
static inline uint32_t holdfast_mutex_leave(uint32_t *word, uint32_t seen, int flag) {
    holdfast_place_t *place = holdfast_place(word);
    uint32_t now = holdfast_now_us(), held = HOLDFAST_LOCKED | HOLDFAST_WOKEN;
    if (!(seen & HOLDFAST_SLEEPERS) && now - __atomic_load_n(&place->woke_us, __ATOMIC_RELAXED) < HOLDFAST_LATE_US) return HOLDFAST_WOKEN;
    __atomic_store_n(&place->woke_us, now, __ATOMIC_RELAXED);
    if (holdfast_may_hand_over(place, now)) {
        __atomic_exchange_n(word, held, __ATOMIC_RELAXED);
        if (holdfast_futex_wake(word, 1, HOLDFAST_ANY, flag) > 0 && holdfast_cas(word, &held, held | HOLDFAST_GRANTED)) return 1;
        return HOLDFAST_WOKEN;
    }
    if (seen & HOLDFAST_SLEEPERS) return HOLDFAST_WOKEN;
    return holdfast_futex_wake(word, 1, HOLDFAST_ANY, flag) > 0 ? HOLDFAST_WOKEN : 0;
}

static inline int holdfast_mutex_unlock_in(holdfast_mutex_t *lock, int flag) {
    uint32_t *word = &lock->word, seen = __atomic_load_n(word, __ATOMIC_RELAXED), left = 0;
    if (seen & (HOLDFAST_SLEEPERS | HOLDFAST_LATE)) left = holdfast_mutex_leave(word, seen, flag);
    else if (seen != HOLDFAST_LOCKED) left = (seen & HOLDFAST_ARRIVES) + HOLDFAST_ONE_RELEASE;
    seen = left == 1 ? 0 : __atomic_exchange_n(word, left, __ATOMIC_RELEASE);
    HOLDFAST_MUTEX_POINT(2);
    if (seen & HOLDFAST_SLEEPERS) holdfast_futex_wake(word, 1, HOLDFAST_ANY, flag);
    return 0;
}

static inline int holdfast_mutex_init(holdfast_mutex_t *lock) {
    __atomic_store_n(&lock->word, 0, __ATOMIC_RELAXED);
    return 0;
}

/* EBUSY: a thread holds it. There is nothing to give back: a lock whose memory is used for something else need not be destroyed. */
static inline int holdfast_mutex_destroy(holdfast_mutex_t *lock) {
    return __atomic_load_n(&lock->word, __ATOMIC_RELAXED) & HOLDFAST_LOCKED ? EBUSY : 0;
}

/* --- read-write lock: 8 bytes --- */

typedef struct {
    uint32_t state;
    uint32_t writers;
} holdfast_rwlock_t;
#define HOLDFAST_RWLOCK_INITIALIZER {0, 0}

#define HOLDFAST_WRITTEN 0x3fffffffu
#define HOLDFAST_READERS_WAIT 0x40000000u
#define HOLDFAST_WRITERS_WAIT 0x80000000u
#define HOLDFAST_BOTH_WAIT 0xc0000000u

static inline int holdfast_rwlock_is_free(uint32_t state) { return !(state & HOLDFAST_WRITTEN); }

static inline int holdfast_rwlock_may_read(uint32_t state, int has_slept) {
    return (state & HOLDFAST_WRITTEN) < HOLDFAST_WRITTEN - 1 && (has_slept || !(state & HOLDFAST_BOTH_WAIT));
}

static inline int holdfast_rwlock_wake_writer(holdfast_rwlock_t *lock, int flag) {
    __atomic_fetch_add(&lock->writers, 1, __ATOMIC_RELEASE);
    return holdfast_futex_wake(&lock->writers, 1, HOLDFAST_ANY, flag) > 0;
}

static inline void holdfast_rwlock_wake(holdfast_rwlock_t *lock, uint32_t state, int flag) {
    if (state == HOLDFAST_WRITERS_WAIT && holdfast_cas(&lock->state, &state, 0)) {
        holdfast_rwlock_wake_writer(lock, flag);
        return;
    }
    if (state == HOLDFAST_BOTH_WAIT) {
        if (!holdfast_cas(&lock->state, &state, HOLDFAST_READERS_WAIT)) return;
        if (holdfast_rwlock_wake_writer(lock, flag)) return;
        state = HOLDFAST_READERS_WAIT;
    }
    if (state == HOLDFAST_READERS_WAIT && holdfast_cas(&lock->state, &state, 0))
        holdfast_futex_wake(&lock->state, INT_MAX, HOLDFAST_ANY, flag);
}

static inline int holdfast_rwlock_tryrdlock(holdfast_rwlock_t *lock) {
    uint32_t state = __atomic_load_n(&lock->state, __ATOMIC_RELAXED);
    while (holdfast_rwlock_may_read(state, 0))
        if (holdfast_cas(&lock->state, &state, state + 1)) {
            HOLDFAST_READ_POINT(1);
            return 0;
        }
    return EBUSY;
}

static inline int holdfast_rwlock_trywrlock(holdfast_rwlock_t *lock) {
    uint32_t state = __atomic_load_n(&lock->state, __ATOMIC_RELAXED);
    while (holdfast_rwlock_is_free(state))
        if (holdfast_cas(&lock->state, &state, state | HOLDFAST_WRITTEN)) {
            HOLDFAST_WRITE_POINT(1);
            return 0;
        }
    return EBUSY;
}

static inline int holdfast_rwlock_clockrdlock_in(holdfast_rwlock_t *lock, int clock, const struct timespec *until, int flag) {
    int has_slept = 0, result;
    if (holdfast_rwlock_tryrdlock(lock) == 0) return 0;
    if (until && !holdfast_is_time(until)) return EINVAL;
    for (;;) {
        uint32_t state = __atomic_load_n(&lock->state, __ATOMIC_RELAXED);
        for (uint32_t look = 0; look < HOLDFAST_LOOKS_RWLOCK; look++) {
            if (holdfast_rwlock_may_read(state, has_slept) || (state & HOLDFAST_BOTH_WAIT)) break;
            holdfast_pause(look);
            state = __atomic_load_n(&lock->state, __ATOMIC_RELAXED);
        }
        if (holdfast_rwlock_may_read(state, has_slept)) {
            if (!holdfast_cas(&lock->state, &state, state + 1)) continue;
            HOLDFAST_READ_POINT(1);
            return 0;
        }
        if (!(state & HOLDFAST_READERS_WAIT)) {
            if (!holdfast_cas(&lock->state, &state, state | HOLDFAST_READERS_WAIT)) continue;
            state |= HOLDFAST_READERS_WAIT;
        }
        result = holdfast_futex_wait(&lock->state, state, HOLDFAST_ANY, clock, until, flag);
        if (result == ETIMEDOUT) return ETIMEDOUT;
        if (result == 0) has_slept = 1;
    }
}

static inline void holdfast_rwlock_give_up_writing(holdfast_rwlock_t *lock, int flag) {
    uint32_t state = __atomic_fetch_and(&lock->state, HOLDFAST_WRITTEN, __ATOMIC_RELAXED);
    if (state & HOLDFAST_WRITERS_WAIT) {
        __atomic_fetch_add(&lock->writers, 1, __ATOMIC_RELEASE);
        holdfast_futex_wake(&lock->writers, INT_MAX, HOLDFAST_ANY, flag);
    }
    if (state & HOLDFAST_READERS_WAIT) holdfast_futex_wake(&lock->state, INT_MAX, HOLDFAST_ANY, flag);
}

static inline int holdfast_rwlock_clockwrlock_in(holdfast_rwlock_t *lock, int clock, const struct timespec *until, int flag) {
    uint32_t others = 0, count;
    if (holdfast_rwlock_trywrlock(lock) == 0) return 0;
    if (until && !holdfast_is_time(until)) return EINVAL;
    for (;;) {
        uint32_t state = __atomic_load_n(&lock->state, __ATOMIC_RELAXED);
        for (uint32_t look = 0; look < HOLDFAST_LOOKS_RWLOCK; look++) {
            if (holdfast_rwlock_is_free(state) || (state & HOLDFAST_WRITERS_WAIT)) break;
            holdfast_pause(look);
            state = __atomic_load_n(&lock->state, __ATOMIC_RELAXED);
        }
        if (holdfast_rwlock_is_free(state)) {
            if (!holdfast_cas(&lock->state, &state, state | HOLDFAST_WRITTEN | others)) continue;
            HOLDFAST_WRITE_POINT(1);
            return 0;
        }
        if (!(state & HOLDFAST_WRITERS_WAIT) &&
            !holdfast_cas(&lock->state, &state, state | HOLDFAST_WRITERS_WAIT))
            continue;
        others = HOLDFAST_WRITERS_WAIT;
        count = __atomic_load_n(&lock->writers, __ATOMIC_ACQUIRE);
        state = __atomic_load_n(&lock->state, __ATOMIC_RELAXED);
        if (holdfast_rwlock_is_free(state) || !(state & HOLDFAST_WRITERS_WAIT)) continue;
        if (holdfast_futex_wait(&lock->writers, count, HOLDFAST_ANY, clock, until, flag) == ETIMEDOUT) {
            holdfast_rwlock_give_up_writing(lock, flag);
            return ETIMEDOUT;
        }
    }
}

static inline int holdfast_rwlock_rdlock_in(holdfast_rwlock_t *lock, int flag) {
    return holdfast_rwlock_clockrdlock_in(lock, 0, NULL, flag);
}

static inline int holdfast_rwlock_wrlock_in(holdfast_rwlock_t *lock, int flag) {
    return holdfast_rwlock_clockwrlock_in(lock, 0, NULL, flag);
}

static inline int holdfast_rwlock_rdunlock_in(holdfast_rwlock_t *lock, int flag) {
    uint32_t state = __atomic_sub_fetch(&lock->state, 1, __ATOMIC_RELEASE);
    HOLDFAST_READ_POINT(2);
    if (holdfast_rwlock_is_free(state) && state) holdfast_rwlock_wake(lock, state, flag);
    return 0;
}

static inline int holdfast_rwlock_wrunlock_in(holdfast_rwlock_t *lock, int flag) {
    uint32_t state = __atomic_sub_fetch(&lock->state, HOLDFAST_WRITTEN, __ATOMIC_RELEASE);
    HOLDFAST_WRITE_POINT(2);
    if (state & HOLDFAST_BOTH_WAIT) holdfast_rwlock_wake(lock, state, flag);
    return 0;
}

static inline int holdfast_rwlock_init(holdfast_rwlock_t *lock) {
    __atomic_store_n(&lock->state, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&lock->writers, 0, __ATOMIC_RELAXED);
    return 0;
}

/* As holdfast_mutex_destroy. */
static inline int holdfast_rwlock_destroy(holdfast_rwlock_t *lock) {
    return holdfast_rwlock_is_free(__atomic_load_n(&lock->state, __ATOMIC_RELAXED)) ? 0 : EBUSY;
}

/* --- condition variable: 8 bytes; and once: 4 bytes --- */

typedef struct {
    uint32_t notified;
    uint32_t waiters;
} holdfast_cond_t;
#define HOLDFAST_COND_INITIALIZER {0, 0}

static inline int holdfast_cond_clockwait_in(holdfast_cond_t *cond, holdfast_mutex_t *mutex, int clock,
                                             const struct timespec *until, int flag) {
    uint32_t notified;
    int result;
    if (until && !holdfast_is_time(until)) return EINVAL;
    __atomic_fetch_add(&cond->waiters, 1, __ATOMIC_RELAXED);
    notified = __atomic_load_n(&cond->notified, __ATOMIC_RELAXED);
    holdfast_mutex_unlock_in(mutex, flag);
    result = holdfast_futex_wait(&cond->notified, notified, HOLDFAST_ANY, clock, until, flag);
    __atomic_fetch_sub(&cond->waiters, 1, __ATOMIC_RELAXED);
    holdfast_mutex_lock_in(mutex, flag);
    return result == ETIMEDOUT ? ETIMEDOUT : 0;
}

static inline int holdfast_cond_wait_in(holdfast_cond_t *cond, holdfast_mutex_t *mutex, int flag) {
    return holdfast_cond_clockwait_in(cond, mutex, 0, NULL, flag);
}

static inline int holdfast_cond_notify(holdfast_cond_t *cond, uint32_t most, int flag) {
    if (__atomic_load_n(&cond->waiters, __ATOMIC_RELAXED) != 0) {
        __atomic_fetch_add(&cond->notified, 1, __ATOMIC_RELAXED);
        holdfast_futex_wake(&cond->notified, most, HOLDFAST_ANY, flag);
    }
    return 0;
}

static inline int holdfast_cond_signal_in(holdfast_cond_t *cond, int flag) { return holdfast_cond_notify(cond, 1, flag); }

static inline int holdfast_cond_broadcast_in(holdfast_cond_t *cond, int flag) {
    return holdfast_cond_notify(cond, INT_MAX, flag);
}

typedef struct {
    uint32_t word;
} holdfast_once_t;
#define HOLDFAST_ONCE_INITIALIZER {0}

static inline int holdfast_once_call_in(holdfast_once_t *once, void (*work)(void), int flag) {
    for (;;) {
        uint32_t word = __atomic_load_n(&once->word, __ATOMIC_ACQUIRE), to = word + 1;
        if (word > 2) return 0;
        if (word == 2) {
            holdfast_futex_wait(&once->word, 2, HOLDFAST_ANY, 0, NULL, flag);
        } else if (holdfast_cas(&once->word, &word, to) && word == 0) {
            work();
            if (__atomic_exchange_n(&once->word, 3, __ATOMIC_RELEASE) == 2)
                holdfast_futex_wake(&once->word, INT_MAX, HOLDFAST_ANY, flag);
            return 0;
        }
    }
}

/* --- the twins --- */

#define HOLDFAST_TWINS(name, parameters, arguments)                                                    \
    static inline int holdfast_##name parameters { return holdfast_##name##_in(HOLDFAST_OPEN arguments, HOLDFAST_PRIVATE); } \
    static inline int holdfast_##name##_pshared parameters {                                           \
        return holdfast_##name##_in(HOLDFAST_OPEN arguments, HOLDFAST_PSHARED);                        \
    }
#define HOLDFAST_OPEN(...) __VA_ARGS__

HOLDFAST_TWINS(mutex_lock, (holdfast_mutex_t * lock), (lock))
HOLDFAST_TWINS(mutex_unlock, (holdfast_mutex_t * lock), (lock))
HOLDFAST_TWINS(mutex_clocklock, (holdfast_mutex_t * lock, int clock, const struct timespec *until), (lock, clock, until))
HOLDFAST_TWINS(rwlock_rdlock, (holdfast_rwlock_t * lock), (lock))
HOLDFAST_TWINS(rwlock_wrlock, (holdfast_rwlock_t * lock), (lock))
HOLDFAST_TWINS(rwlock_rdunlock, (holdfast_rwlock_t * lock), (lock))
HOLDFAST_TWINS(rwlock_wrunlock, (holdfast_rwlock_t * lock), (lock))
HOLDFAST_TWINS(rwlock_clockrdlock, (holdfast_rwlock_t * lock, int clock, const struct timespec *until), (lock, clock, until))
HOLDFAST_TWINS(rwlock_clockwrlock, (holdfast_rwlock_t * lock, int clock, const struct timespec *until), (lock, clock, until))
HOLDFAST_TWINS(cond_wait, (holdfast_cond_t * cond, holdfast_mutex_t *mutex), (cond, mutex))
HOLDFAST_TWINS(cond_clockwait, (holdfast_cond_t * cond, holdfast_mutex_t *mutex, int clock, const struct timespec *until),
               (cond, mutex, clock, until))
HOLDFAST_TWINS(cond_signal, (holdfast_cond_t * cond), (cond))
HOLDFAST_TWINS(cond_broadcast, (holdfast_cond_t * cond), (cond))
HOLDFAST_TWINS(once_call, (holdfast_once_t * once, void (*work)(void)), (once, work))

/* --- robust mutex: 40 bytes, process-shared --- */

#if defined(__linux__) && __SIZEOF_POINTER__ == 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define HOLDFAST_HAS_ROBUST 1

/* Low word: the kernel's form of a robust futex. Above it: two bits of state, and a count of owners. */
typedef struct {
    uint64_t words;
    uint64_t reserved[2];
    void *previous, *next;
} holdfast_robust_t;
#define HOLDFAST_ROBUST_INITIALIZER {0, {0, 0}, NULL, NULL}

#define HOLDFAST_WAITERS (UINT64_C(1) << 31)
#define HOLDFAST_OWNER_DIED (UINT64_C(1) << 30)
#define HOLDFAST_OWNER (HOLDFAST_OWNER_DIED - 1)
#define HOLDFAST_FIRST_WORD ((UINT64_C(1) << 32) - 1)
#define HOLDFAST_STATE (UINT64_C(3) << 32)
#define HOLDFAST_STATE_DIED (UINT64_C(1) << 32)
#define HOLDFAST_STATE_GIVEN_UP (UINT64_C(2) << 32)
#define HOLDFAST_TURN (UINT64_C(1) << 34)

/* linux/futex.h: struct robust_list_head. */
struct holdfast_robust_head {
    void **first;
    long futex_offset;
    void **pending;
};

struct holdfast_task {
    uint32_t id;
    struct holdfast_robust_head *head;
};

static inline struct holdfast_task *holdfast_thread_here(void) {
    static __thread struct holdfast_task here;
    return &here;
}

static inline void holdfast_thread_forget(void) { holdfast_thread_here()->id = 0; }

static inline struct holdfast_task *holdfast_thread(void) {
    static int handles_fork;
    struct holdfast_task *here = holdfast_thread_here();
    struct holdfast_robust_head *head = NULL;
    size_t bytes = 0;
    if (here->id != 0) return here;
    if (!__atomic_exchange_n(&handles_fork, 1, __ATOMIC_RELAXED)) pthread_atfork(NULL, NULL, holdfast_thread_forget);
    if (syscall(SYS_get_robust_list, 0, &head, &bytes) != 0 || !head || head->futex_offset != -32) head = NULL;
    here->head = head;
    here->id = (uint32_t)syscall(SYS_gettid);
    return here;
}

static inline int holdfast_cas_words(uint64_t *words, uint64_t *seen, uint64_t to) {
    return __atomic_compare_exchange_n(words, seen, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* From here on the kernel looks at this lock if the thread dies; with NULL, at the list alone. */
static inline void holdfast_robust_pending(struct holdfast_task *thread, void **next) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&thread->head->pending, next, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* The cell `previous` in front of a cell `next`; bit 0 marks locks with priority inheritance. */
static inline void **holdfast_robust_previous_of(void *next) { return (void **)((uintptr_t)next & ~(uintptr_t)1) - 1; }

static inline void holdfast_robust_link(struct holdfast_task *thread, holdfast_robust_t *lock) {
    void *second = (void *)thread->head->first;
    lock->next = second;
    lock->previous = &thread->head->first;
    *holdfast_robust_previous_of(second) = &lock->next;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&thread->head->first, &lock->next, __ATOMIC_RELAXED);
}

static inline void holdfast_robust_unlink(holdfast_robust_t *lock) {
    void **before = (void **)((uintptr_t)lock->previous & ~(uintptr_t)1);
    *holdfast_robust_previous_of(lock->next) = lock->previous;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(before, lock->next, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    lock->next = lock->previous = NULL;
}

/* 0 with the words under which it is ours in `*words`. */
static inline int holdfast_robust_take(holdfast_robust_t *lock, uint32_t me, int may_wait, int clock,
                                       const struct timespec *until, uint64_t *words) {
    uint64_t has_slept = 0, to;
    uint32_t *first = (uint32_t *)(void *)&lock->words;
    for (;;) {
        *words = __atomic_load_n(&lock->words, __ATOMIC_RELAXED);
        if (!(*words & HOLDFAST_OWNER)) {
            int is_first = (*words & HOLDFAST_OWNER_DIED) && !(*words & HOLDFAST_STATE);
            to = (*words & ~HOLDFAST_FIRST_WORD) | (is_first ? HOLDFAST_STATE_DIED : 0);
            to = (to + HOLDFAST_TURN) | (*words & HOLDFAST_WAITERS) | has_slept | me;
            if (holdfast_cas_words(&lock->words, words, to)) {
                *words = to;
                return 0;
            }
        } else if ((*words & HOLDFAST_OWNER) == me) {
            return EDEADLK;
        } else if (!may_wait) {
            return EBUSY;
        } else if (!(*words & HOLDFAST_WAITERS)) {
            to = *words | HOLDFAST_WAITERS;
            holdfast_cas_words(&lock->words, words, to);
        } else {
            int result = holdfast_futex_wait(first, (uint32_t)*words, HOLDFAST_ANY, clock, until, HOLDFAST_PSHARED);
            if (result == 0) has_slept = HOLDFAST_WAITERS;
            if (result != 0 && result != EAGAIN && result != EINTR) return result;
        }
    }
}

static inline void holdfast_robust_release(struct holdfast_task *thread, holdfast_robust_t *lock) {
    uint64_t words = __atomic_load_n(&lock->words, __ATOMIC_RELAXED), left;
    holdfast_robust_pending(thread, &lock->next);
    holdfast_robust_unlink(lock);
    do {
        left = (words & ~HOLDFAST_FIRST_WORD) | (words & HOLDFAST_WAITERS);
        if ((words & HOLDFAST_STATE) == HOLDFAST_STATE_DIED) left = (left & ~HOLDFAST_STATE) | HOLDFAST_STATE_GIVEN_UP;
    } while (!holdfast_cas_words(&lock->words, &words, left));
    if ((left & HOLDFAST_WAITERS) &&
        holdfast_futex_wake((uint32_t *)(void *)&lock->words, 1, HOLDFAST_ANY, HOLDFAST_PSHARED) == 0)
        holdfast_cas_words(&lock->words, &left, left & ~HOLDFAST_WAITERS);
    holdfast_robust_pending(thread, NULL);
}

static inline int holdfast_robust_acquire(holdfast_robust_t *lock, int may_wait, int clock, const struct timespec *until) {
    struct holdfast_task *thread = holdfast_thread();
    uint64_t words = 0;
    int result;
    if (until && !holdfast_is_time(until)) return EINVAL;
    if (!thread->head) return ENOTSUP;
    holdfast_robust_pending(thread, &lock->next);
    result = holdfast_robust_take(lock, thread->id, may_wait, clock, until, &words);
    if (result == 0) holdfast_robust_link(thread, lock);
    holdfast_robust_pending(thread, NULL);
    if (result != 0 || !(words & HOLDFAST_STATE)) return result;
    if ((words & HOLDFAST_STATE) == HOLDFAST_STATE_DIED) return EOWNERDEAD;
    holdfast_robust_release(thread, lock);
    return ENOTRECOVERABLE;
}

/* 0; EOWNERDEAD: it is yours, repair the data and call holdfast_robust_consistent; ENOTRECOVERABLE: an owner after a death did not;
 * EDEADLK: it is yours already; ENOTSUP: the C library is not glibc. The memory stays mapped until the lock is given back. */
static inline int holdfast_robust_lock(holdfast_robust_t *lock) { return holdfast_robust_acquire(lock, 1, 0, NULL); }

static inline int holdfast_robust_trylock(holdfast_robust_t *lock) { return holdfast_robust_acquire(lock, 0, 0, NULL); }

static inline int holdfast_robust_clocklock(holdfast_robust_t *lock, int clock, const struct timespec *until) {
    return holdfast_robust_acquire(lock, 1, clock, until);
}

/* EPERM: it is not yours. */
static inline int holdfast_robust_consistent(holdfast_robust_t *lock) {
    uint64_t words = __atomic_load_n(&lock->words, __ATOMIC_RELAXED);
    if ((words & HOLDFAST_OWNER) != holdfast_thread()->id) return EPERM;
    while ((words & HOLDFAST_STATE) == HOLDFAST_STATE_DIED && !holdfast_cas_words(&lock->words, &words, words & ~HOLDFAST_STATE)) {
    }
    return 0;
}

/* EPERM: it is not yours; nothing was changed. */
static inline int holdfast_robust_unlock(holdfast_robust_t *lock) {
    struct holdfast_task *thread = holdfast_thread();
    if (!thread->head || (__atomic_load_n(&lock->words, __ATOMIC_RELAXED) & HOLDFAST_OWNER) != thread->id) return EPERM;
    holdfast_robust_release(thread, lock);
    return 0;
}
#endif

/* --- a longer time slice --- */

/* What holdfast_hold_status says. */
enum {
    HOLDFAST_HOLD_WORKS,
    HOLDFAST_HOLD_NO_ARCHITECTURE, /* x86-64 alone */
    HOLDFAST_HOLD_NO_KERNEL,       /* Linux 7.0.10 with CONFIG_RSEQ_SLICE_EXTENSION */
    HOLDFAST_HOLD_NO_C_LIBRARY,    /* glibc 2.41: its rseq area is too short, or it has none */
    HOLDFAST_HOLD_NO_THREAD,       /* made past the C library */
    HOLDFAST_HOLD_REFUSED          /* by another errno; seccomp for example */
};

/* An outermost section's area, or NULL. */
typedef struct {
    volatile unsigned char *area;
} holdfast_hold_t;

#if defined(__x86_64__) && defined(__LP64__)
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static inline volatile unsigned char *holdfast_hold_area(void) {
    unsigned char *thread;
    if (&__rseq_size == NULL || __rseq_size == 0) return NULL;
    __asm__("mov %%fs:0, %0" : "=r"(thread));
    return thread + __rseq_offset;
}

/* Lets the calling thread ask. This header brings no area: that of the C library must be long enough. */
static inline int holdfast_hold_status(void) {
    int before = errno, code;
    if (getauxval(27) < 33) return HOLDFAST_HOLD_NO_KERNEL;
    if (!holdfast_hold_area()) return HOLDFAST_HOLD_NO_C_LIBRARY;
    code = syscall(SYS_prctl, 79, 2, 1, 0, 0) == 0 ? 0 : errno;
    errno = before;
    if (code == 0) return HOLDFAST_HOLD_WORKS;
    if (code == EINVAL) return HOLDFAST_HOLD_NO_KERNEL;
    if (code == 524) return HOLDFAST_HOLD_NO_C_LIBRARY;
    return code == ENXIO ? HOLDFAST_HOLD_NO_THREAD : HOLDFAST_HOLD_REFUSED;
}

/* From here until holdfast_hold_end the kernel lets the thread run on for some microseconds where it would preempt it. */
static inline holdfast_hold_t holdfast_hold(void) {
    static unsigned char cannot;
    holdfast_hold_t hold = {NULL};
    volatile unsigned char *area;
    if (__atomic_load_n(&cannot, __ATOMIC_RELAXED)) return hold;
    area = holdfast_hold_area();
    if (!area || !(area[16] & 1 << 5)) {
        int status = holdfast_hold_status();
        if (status != HOLDFAST_HOLD_WORKS) {
            if (status != HOLDFAST_HOLD_NO_THREAD) __atomic_store_n(&cannot, 1, __ATOMIC_RELAXED);
            return hold;
        }
    }
    if (area[28] | area[29]) return hold;
    area[28] = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    hold.area = area;
    return hold;
}

static inline void holdfast_hold_end(holdfast_hold_t hold) {
    if (!hold.area) return;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    hold.area[28] = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (hold.area[29]) {
        int before = errno;
        syscall(471); /* rseq_slice_yield */
        errno = before;
    }
}
#else
static inline int holdfast_hold_status(void) { return HOLDFAST_HOLD_NO_ARCHITECTURE; }
static inline holdfast_hold_t holdfast_hold(void) {
    holdfast_hold_t hold = {NULL};
    return hold;
}
static inline void holdfast_hold_end(holdfast_hold_t hold) { (void)hold; }
#endif

/* Misuse is named with file and line. */
#ifdef HOLDFAST_DEBUG
#include "holdfast-debug.h"
#endif

#ifdef __cplusplus
}

namespace holdfast {
/* For std::lock_guard and std::unique_lock. */
class mutex {
    holdfast_mutex_t lock_{0};

public:
    constexpr mutex() noexcept = default;
    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;
    void lock() noexcept { holdfast_mutex_lock(&lock_); }
    bool try_lock() noexcept { return holdfast_mutex_trylock(&lock_) == 0; }
    void unlock() noexcept { holdfast_mutex_unlock(&lock_); }
};

/* Asks for a longer time slice for as long as it lives. */
class hold {
    holdfast_hold_t hold_;

public:
    hold() noexcept : hold_(holdfast_hold()) {}
    ~hold() { holdfast_hold_end(hold_); }
    hold(const hold &) = delete;
    hold &operator=(const hold &) = delete;
};
} // namespace holdfast
#endif
#endif
