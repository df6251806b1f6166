/* libholdfast-pthread.so: holdfast behind pthread_mutex_*, pthread_cond_*, pthread_rwlock_* and pthread_spin_* of a program that glibc
 * loads. docs/holdfast.md says how it is used.
 *
 * Built by `cc -O2 -shared -fPIC -fvisibility=hidden -nostdlib`: without the C library's names in the link, no symbol asks for a version,
 * so that one file runs with glibc 2.17 and later. Symbols that a C library may lack are weak.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef HOLDFAST_PRELOAD_H
#define HOLDFAST_PRELOAD_H

#include "../include/holdfast.h"

#define HF_EXPORT __attribute__((visibility("default")))
#define HF_LIKELY(condition) __builtin_expect(!!(condition), 1)

/* --- the C library's own functions, for the locks that stay its own --- */

#define HF_REAL_FUNCTIONS(FUNCTION)                                                                   \
    FUNCTION(pthread_mutex_init, (pthread_mutex_t *, const pthread_mutexattr_t *))                    \
    FUNCTION(pthread_mutex_destroy, (pthread_mutex_t *))                                              \
    FUNCTION(pthread_mutex_lock, (pthread_mutex_t *))                                                 \
    FUNCTION(pthread_mutex_trylock, (pthread_mutex_t *))                                              \
    FUNCTION(pthread_mutex_timedlock, (pthread_mutex_t *, const struct timespec *))                   \
    FUNCTION(pthread_mutex_clocklock, (pthread_mutex_t *, clockid_t, const struct timespec *))        \
    FUNCTION(pthread_mutex_unlock, (pthread_mutex_t *))                                               \
    FUNCTION(pthread_cond_init, (pthread_cond_t *, const pthread_condattr_t *))                       \
    FUNCTION(pthread_cond_destroy, (pthread_cond_t *))                                                \
    FUNCTION(pthread_cond_wait, (pthread_cond_t *, pthread_mutex_t *))                                \
    FUNCTION(pthread_cond_timedwait, (pthread_cond_t *, pthread_mutex_t *, const struct timespec *))  \
    FUNCTION(pthread_cond_clockwait, (pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *)) \
    FUNCTION(pthread_cond_signal, (pthread_cond_t *))                                                 \
    FUNCTION(pthread_cond_broadcast, (pthread_cond_t *))                                              \
    FUNCTION(pthread_cancel, (pthread_t))                                                             \
    FUNCTION(pthread_rwlock_init, (pthread_rwlock_t *, const pthread_rwlockattr_t *))                 \
    FUNCTION(pthread_rwlock_destroy, (pthread_rwlock_t *))                                            \
    FUNCTION(pthread_rwlock_rdlock, (pthread_rwlock_t *))                                             \
    FUNCTION(pthread_rwlock_tryrdlock, (pthread_rwlock_t *))                                          \
    FUNCTION(pthread_rwlock_timedrdlock, (pthread_rwlock_t *, const struct timespec *))               \
    FUNCTION(pthread_rwlock_clockrdlock, (pthread_rwlock_t *, clockid_t, const struct timespec *))    \
    FUNCTION(pthread_rwlock_wrlock, (pthread_rwlock_t *))                                             \
    FUNCTION(pthread_rwlock_trywrlock, (pthread_rwlock_t *))                                          \
    FUNCTION(pthread_rwlock_timedwrlock, (pthread_rwlock_t *, const struct timespec *))               \
    FUNCTION(pthread_rwlock_clockwrlock, (pthread_rwlock_t *, clockid_t, const struct timespec *))    \
    FUNCTION(pthread_rwlock_unlock, (pthread_rwlock_t *))                                             \
    FUNCTION(pthread_spin_init, (pthread_spinlock_t *, int))                                          \
    FUNCTION(pthread_spin_destroy, (pthread_spinlock_t *))                                            \
    FUNCTION(pthread_spin_lock, (pthread_spinlock_t *))                                               \
    FUNCTION(pthread_spin_trylock, (pthread_spinlock_t *))                                            \
    FUNCTION(pthread_spin_unlock, (pthread_spinlock_t *))                                             \
    FUNCTION(mtx_init, (mtx_t *, int))                                                                \
    FUNCTION(mtx_lock, (mtx_t *))                                                                     \
    FUNCTION(mtx_trylock, (mtx_t *))                                                                  \
    FUNCTION(mtx_timedlock, (mtx_t *, const struct timespec *))                                       \
    FUNCTION(mtx_unlock, (mtx_t *))                                                                   \
    FUNCTION(cnd_init, (cnd_t *))                                                                     \
    FUNCTION(cnd_signal, (cnd_t *))                                                                   \
    FUNCTION(cnd_broadcast, (cnd_t *))                                                                \
    FUNCTION(cnd_wait, (cnd_t *, mtx_t *))                                                            \
    FUNCTION(cnd_timedwait, (cnd_t *, mtx_t *, const struct timespec *))

#include <threads.h>

struct hf_real {
#define HF_MEMBER(name, parameters) int(*name) parameters;
    HF_REAL_FUNCTIONS(HF_MEMBER)
#undef HF_MEMBER
};

/* Found at the first call: constructors of other libraries may lock before this library's own one runs. */
const struct hf_real *hf_real(void);

/* Whether the program's C library is a glibc whose layouts are known here. Where not, all calls are forwarded. */
int hf_is_glibc(void);

/* The word of a condition in which this glibc keeps its flags: bit 0 process-shared, bit 1 CLOCK_MONOTONIC. 9 up to glibc 2.40, 7 since. */
uint32_t hf_cond_flags_at(void);

/* --- threads --- */

extern __thread int hf_thread_id __attribute__((tls_model("initial-exec")));
int hf_find_thread_id(void);

/* As glibc writes it into its locks. */
static inline int hf_self(void) { return HF_LIKELY(hf_thread_id != 0) ? hf_thread_id : hf_find_thread_id(); }

/* EINVAL for a time that is none; ETIMEDOUT for one before 1970, as glibc has it; else 0. */
static inline int hf_judge_time(const struct timespec *until) {
    if (until->tv_nsec < 0 || until->tv_nsec >= 1000000000) return EINVAL;
    return until->tv_sec < 0 ? ETIMEDOUT : 0;
}

static inline int hf_is_clock(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC; }

/* --- the report --- */

#define HF_COUNTS(COUNT)                                                    \
    COUNT(served_mutexes) COUNT(served_conditions) COUNT(served_rwlocks)    \
    COUNT(served_spinlocks) COUNT(left_mutex_process_shared)                \
    COUNT(left_mutex_robust) COUNT(left_mutex_priority_inheritance)         \
    COUNT(left_mutex_priority_protection) COUNT(left_condition_process_shared) \
    COUNT(left_rwlock_process_shared) COUNT(left_rwlock_prefers_readers)    \
    COUNT(left_unknown_c_library)

enum hf_count {
#define HF_ENUM(name) HF_##name,
    HF_COUNTS(HF_ENUM)
#undef HF_ENUM
};

/* Called where a lock is initialised, and at the first use of one that was initialised statically. */
void hf_count(enum hf_count what);

void hf_report_begin(void);

/* --- mutexes, for the conditions --- */

/* Written beside the kind of a mutex (`__spins`, which holdfast does not use), and into the others, once it is counted as holdfast's. */
#define HF_MARK UINT32_C(0x68666d6b)

int hf_mutex_is_left(pthread_mutex_t *mutex);

#endif
