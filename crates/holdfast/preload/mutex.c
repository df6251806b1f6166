/* pthread_mutex_*. The word of holdfast is glibc's `__lock`; owner, count and kind stay where glibc and debuggers have them.
 *
 * Normal, adaptive, recursive and errorcheck mutexes of one process are holdfast's. The others are the C library's: they have a bit in
 * their kind, which pthread_mutex_init set, and no static initialiser. Errors are those of nptl/pthread_mutex_{lock,trylock,timedlock,
 * unlock,destroy}.c (glibc 2.36). */
#include "preload.h"

#pragma weak pthread_mutexattr_gettype
#pragma weak pthread_mutexattr_getpshared
#pragma weak pthread_mutexattr_getprotocol
#pragma weak pthread_mutexattr_getrobust

/* The values of glibc's `__kind`, which static initialisers write. */
enum { NORMAL, RECURSIVE, ERRORCHECK, ADAPTIVE, LEFT };
/* nptl/pthreadP.h: the type with the bits for robust, inheritance and protection; process-shared. */
#define GLIBC_TYPE 127
#define GLIBC_PSHARED 128

_Static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0 && offsetof(pthread_mutex_t, __data.__owner) == 8 &&
                   offsetof(pthread_mutex_t, __data.__kind) == 16 && sizeof(pthread_mutex_t) >= 40,
               "the layout of a mutex is another one: glibc on x86-64 or aarch64 is needed");

static inline holdfast_mutex_t *word_of(pthread_mutex_t *mutex) { return (holdfast_mutex_t *)(void *)&mutex->__data.__lock; }

/* The kind in the low half, the mark in the high half: one load decides. */
static inline uint64_t *about(pthread_mutex_t *mutex) { return (uint64_t *)(void *)&mutex->__data.__kind; }

#define MARKED(kind) ((uint64_t)HF_MARK << 32 | (kind))

__attribute__((noinline)) static uint32_t kind_at_first_use(pthread_mutex_t *mutex) {
    uint64_t seen = __atomic_load_n(about(mutex), __ATOMIC_RELAXED);
    uint32_t kind = (uint32_t)seen;
    if (!hf_is_glibc() || (kind & GLIBC_PSHARED) || (kind & GLIBC_TYPE) > ADAPTIVE) return LEFT;
    /* An explicitly normal mutex has a bit against lock elision, which holdfast has not. */
    if (__atomic_compare_exchange_n(about(mutex), &seen, MARKED(kind & GLIBC_TYPE), 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        hf_count(HF_served_mutexes);
    return kind & GLIBC_TYPE;
}

static inline uint32_t kind_of(pthread_mutex_t *mutex) {
    uint64_t seen = __atomic_load_n(about(mutex), __ATOMIC_RELAXED);
    return HF_LIKELY(seen >> 32 == HF_MARK && (uint32_t)seen <= ADAPTIVE) ? (uint32_t)seen : kind_at_first_use(mutex);
}

int hf_mutex_is_left(pthread_mutex_t *mutex) { return kind_of(mutex) == LEFT; }

static inline void set_owner(pthread_mutex_t *mutex, int owner) {
    __atomic_store_n(&mutex->__data.__owner, owner, __ATOMIC_RELAXED);
}

static inline int is_owner(pthread_mutex_t *mutex) {
    return __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) == hf_self();
}

HF_EXPORT int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes) {
    int kind = PTHREAD_MUTEX_DEFAULT, shared = PTHREAD_PROCESS_PRIVATE, protocol = PTHREAD_PRIO_NONE, robust = PTHREAD_MUTEX_STALLED;
    if (attributes && hf_is_glibc()) {
        pthread_mutexattr_gettype(attributes, &kind);
        pthread_mutexattr_getpshared(attributes, &shared);
        if (pthread_mutexattr_getprotocol) pthread_mutexattr_getprotocol(attributes, &protocol);
        if (pthread_mutexattr_getrobust) pthread_mutexattr_getrobust(attributes, &robust);
    }
    if (hf_is_glibc() && shared == PTHREAD_PROCESS_PRIVATE && protocol == PTHREAD_PRIO_NONE &&
        robust == PTHREAD_MUTEX_STALLED && kind >= NORMAL && kind <= ADAPTIVE) {
        *mutex = (pthread_mutex_t){.__size = {0}};
        *about(mutex) = MARKED((uint32_t)kind);
        hf_count(HF_served_mutexes);
        return 0;
    }
    hf_count(!hf_is_glibc()                           ? HF_left_unknown_c_library
             : robust != PTHREAD_MUTEX_STALLED        ? HF_left_mutex_robust
             : protocol == PTHREAD_PRIO_INHERIT       ? HF_left_mutex_priority_inheritance
             : protocol == PTHREAD_PRIO_PROTECT       ? HF_left_mutex_priority_protection
                                                      : HF_left_mutex_process_shared);
    return hf_real()->pthread_mutex_init(mutex, attributes);
}

HF_EXPORT int pthread_mutex_destroy(pthread_mutex_t *mutex) {
    if (kind_of(mutex) == LEFT) return hf_real()->pthread_mutex_destroy(mutex);
    /* `__nusers` counts those that wait on a condition with it. */
    if ((__atomic_load_n(&word_of(mutex)->word, __ATOMIC_RELAXED) & HOLDFAST_LOCKED) ||
        __atomic_load_n(&mutex->__data.__nusers, __ATOMIC_RELAXED) != 0)
        return EBUSY;
    /* As glibc: an unknown kind, with which each later call is EINVAL. */
    __atomic_store_n(about(mutex), (uint64_t)UINT32_MAX, __ATOMIC_RELAXED);
    return 0;
}

enum how { WAIT, TRY };

/* What recursive and errorcheck mutexes say to their owner, or -1 where the caller has to take the word. */
static inline int answer_to_owner(pthread_mutex_t *mutex, uint32_t kind, enum how how) {
    if (kind == ERRORCHECK && how == WAIT && is_owner(mutex)) return EDEADLK;
    if (kind != RECURSIVE || !is_owner(mutex)) return -1;
    if (mutex->__data.__count + 1 == 0) return EAGAIN;
    mutex->__data.__count++;
    return 0;
}

static inline int taken(pthread_mutex_t *mutex, uint32_t kind) {
    if (kind == RECURSIVE) mutex->__data.__count = 1;
    set_owner(mutex, hf_self());
    return 0;
}

__attribute__((noinline)) static int lock_of_kind(pthread_mutex_t *mutex) {
    uint32_t kind = kind_of(mutex);
    int answer;
    if (kind == LEFT) return hf_real()->pthread_mutex_lock(mutex);
    answer = answer_to_owner(mutex, kind, WAIT);
    if (answer >= 0) return answer;
    holdfast_mutex_lock(word_of(mutex));
    return taken(mutex, kind);
}

__attribute__((noinline)) static int wait_for(pthread_mutex_t *mutex) {
    holdfast_mutex_lock(word_of(mutex));
    return taken(mutex, NORMAL);
}

HF_EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex) {
    if (!HF_LIKELY(__atomic_load_n(about(mutex), __ATOMIC_RELAXED) == MARKED(NORMAL))) return lock_of_kind(mutex);
    if (!HF_LIKELY(!(__atomic_fetch_or(&word_of(mutex)->word, HOLDFAST_LOCKED, __ATOMIC_ACQUIRE) & HOLDFAST_LOCKED)))
        return wait_for(mutex);
    return taken(mutex, NORMAL);
}

HF_EXPORT int pthread_mutex_trylock(pthread_mutex_t *mutex) {
    uint32_t kind = kind_of(mutex);
    int answer;
    if (kind == LEFT) return hf_real()->pthread_mutex_trylock(mutex);
    answer = answer_to_owner(mutex, kind, TRY);
    if (answer >= 0) return answer;
    return holdfast_mutex_trylock(word_of(mutex)) == 0 ? taken(mutex, kind) : EBUSY;
}

static int lock_until(pthread_mutex_t *mutex, uint32_t kind, clockid_t clock, const struct timespec *until) {
    int answer = answer_to_owner(mutex, kind, WAIT);
    if (answer >= 0) return answer;
    if (holdfast_mutex_trylock(word_of(mutex)) == 0) return taken(mutex, kind);
    answer = hf_judge_time(until);
    if (answer == 0) answer = holdfast_mutex_clocklock(word_of(mutex), clock, until);
    return answer == 0 ? taken(mutex, kind) : answer;
}

HF_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
    uint32_t kind = kind_of(mutex);
    if (kind == LEFT) return hf_real()->pthread_mutex_timedlock(mutex, until);
    return lock_until(mutex, kind, CLOCK_REALTIME, until);
}

HF_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    uint32_t kind = kind_of(mutex);
    if (kind == LEFT) return hf_real()->pthread_mutex_clocklock(mutex, clock, until);
    if (!hf_is_clock(clock)) return EINVAL;
    return lock_until(mutex, kind, clock, until);
}

__attribute__((noinline)) static int unlock_of_kind(pthread_mutex_t *mutex) {
    uint32_t kind = kind_of(mutex);
    if (kind == LEFT) return hf_real()->pthread_mutex_unlock(mutex);
    if (kind == RECURSIVE || kind == ERRORCHECK) {
        if (!is_owner(mutex) || !(__atomic_load_n(&word_of(mutex)->word, __ATOMIC_RELAXED) & HOLDFAST_LOCKED)) return EPERM;
        if (kind == RECURSIVE && --mutex->__data.__count != 0) return 0;
    }
    set_owner(mutex, 0);
    return holdfast_mutex_unlock(word_of(mutex));
}

HF_EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    if (!HF_LIKELY(__atomic_load_n(about(mutex), __ATOMIC_RELAXED) == MARKED(NORMAL))) return unlock_of_kind(mutex);
    set_owner(mutex, 0);
    /* The last access: the next owner may free the memory. */
    return holdfast_mutex_unlock(word_of(mutex));
}

/* The names by which libraries of glibc before 2.34 call the same functions. */
#define ALIAS(name) __asm__(".globl __" #name "\n.set __" #name ", " #name)
ALIAS(pthread_mutex_init);
ALIAS(pthread_mutex_destroy);
ALIAS(pthread_mutex_lock);
ALIAS(pthread_mutex_trylock);
ALIAS(pthread_mutex_unlock);
