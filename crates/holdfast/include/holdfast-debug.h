/* holdfast-debug.h: names misuse of mutexes and read-write locks, with file and line. holdfast.h takes it in where HOLDFAST_DEBUG is defined
 * before it; alone it is of no use.
 *
 *     holdfast: server.c:120: unlock of mutex 0x55d0c0de: thread 4711 does not hold it; thread 4712 took it at server.c:98
 *
 * stands on stderr, and the program is aborted. Where HOLDFAST_DEBUG_RETURN is defined, the call returns instead: EDEADLK for a lock
 * that the thread holds, EPERM for an unlock of one that it does not hold, EBUSY for the destruction of one that is in use, EINVAL for the
 * use of a destroyed one.
 *
 * The layout of the locks stays. Who holds them stands in a table of the process, which all its files share that are compiled so
 * (a weak symbol); all that use one lock have to be. Of locks that processes share, only the threads of this one are known. A
 * thread that ends with a lock, and a lock that is freed while it is held, keep their entry. Where the table has no room for
 * a lock, its misuse is not seen.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef HOLDFAST_DEBUG_H
#define HOLDFAST_DEBUG_H

#include <stdio.h>
#include <stdlib.h>

enum holdfast_debug_state {
    HOLDFAST_DEBUG_NONE, /* no entry */
    HOLDFAST_DEBUG_PAST, /* given back or destroyed: may be overwritten */
    HOLDFAST_DEBUG_HELD
};

struct holdfast_debug_entry {
    const void *lock;
    const char *file;
    int line, thread, state, count;
};

#define HOLDFAST_DEBUG_ROWS 1024
#define HOLDFAST_DEBUG_COLUMNS 8
struct holdfast_debug_row {
    uint32_t lock, unused;
    struct holdfast_debug_entry entries[HOLDFAST_DEBUG_COLUMNS];
};
__attribute__((weak)) struct holdfast_debug_row holdfast_debug_table[HOLDFAST_DEBUG_ROWS];

/* In the word of a destroyed lock. Memory that is used anew for a lock is zero. */
#define HOLDFAST_DEBUG_DESTROYED 0xdeadbea5u

static inline int holdfast_debug_self(void) {
    static __thread int self;
    /* A forked child keeps the number: it may give back what its parent's thread held. */
    if (self == 0) self = (int)syscall(SYS_gettid);
    return self;
}

static inline struct holdfast_debug_row *holdfast_debug_open(const void *lock) {
    uintptr_t address = (uintptr_t)lock;
    struct holdfast_debug_row *row = &holdfast_debug_table[(address >> 2 ^ address >> 12) % HOLDFAST_DEBUG_ROWS];
    holdfast_mutex_lock((holdfast_mutex_t *)(void *)&row->lock);
    return row;
}

static inline void holdfast_debug_close(struct holdfast_debug_row *row) {
    holdfast_mutex_unlock((holdfast_mutex_t *)(void *)&row->lock);
}

/* The entry of a lock in a state; of a thread, or of any (0). */
static inline struct holdfast_debug_entry *holdfast_debug_find(struct holdfast_debug_row *row, const void *lock, int state, int thread) {
    for (int n = 0; n < HOLDFAST_DEBUG_COLUMNS; n++) {
        struct holdfast_debug_entry *entry = &row->entries[n];
        if (entry->lock == lock && entry->state == state && (thread == 0 || entry->thread == thread)) return entry;
    }
    return NULL;
}

static inline void holdfast_debug_write(struct holdfast_debug_entry *entry, const void *lock, int state, const char *file, int line) {
    entry->lock = lock;
    entry->file = file;
    entry->line = line;
    entry->thread = holdfast_debug_self();
    entry->state = state;
    entry->count = 1;
}

/* Remembers what this thread did to a lock. */
static inline void holdfast_debug_note(const void *lock, int state, const char *file, int line) {
    struct holdfast_debug_row *row = holdfast_debug_open(lock);
    struct holdfast_debug_entry *entry = holdfast_debug_find(row, lock, state, state == HOLDFAST_DEBUG_HELD ? holdfast_debug_self() : 0);
    if (entry && state == HOLDFAST_DEBUG_HELD) entry->count++; /* a read lock that is taken twice */
    for (int wanted = HOLDFAST_DEBUG_NONE; !entry && wanted <= HOLDFAST_DEBUG_PAST; wanted++)
        for (int n = 0; !entry && n < HOLDFAST_DEBUG_COLUMNS; n++)
            if (row->entries[n].state == wanted) entry = &row->entries[n];
    if (entry && entry->state != HOLDFAST_DEBUG_HELD)
        holdfast_debug_write(entry, lock, state, file, line);
    holdfast_debug_close(row);
}

static inline int holdfast_debug_misuse(int error, const char *file, int line, const char *text) {
    fprintf(stderr, "holdfast: %s:%d: %s\n", file, line, text);
#ifndef HOLDFAST_DEBUG_RETURN
    abort();
#endif
    return error;
}

#define HOLDFAST_DEBUG_TEXT 512

/* Before a lock is waited for: a destroyed one, or one that this thread holds. */
static inline int holdfast_debug_before(const char *what, const void *lock, uint32_t word, int may_wait, const char *file, int line) {
    struct holdfast_debug_row *row = holdfast_debug_open(lock);
    struct holdfast_debug_entry *past = holdfast_debug_find(row, lock, HOLDFAST_DEBUG_PAST, 0);
    struct holdfast_debug_entry *held = holdfast_debug_find(row, lock, HOLDFAST_DEBUG_HELD, holdfast_debug_self());
    char text[HOLDFAST_DEBUG_TEXT];
    int error = 0;
    if (word == HOLDFAST_DEBUG_DESTROYED) {
        error = EINVAL;
        snprintf(text, sizeof text, "%s %p: it was destroyed at %s:%d", what, lock, past ? past->file : "?", past ? past->line : 0);
    } else if (may_wait && held) {
        error = EDEADLK;
        snprintf(text, sizeof text, "%s %p: thread %d waits for itself; it took it at %s:%d", what, lock, held->thread, held->file,
                 held->line);
    }
    holdfast_debug_close(row);
    return error ? holdfast_debug_misuse(error, file, line, text) : 0;
}

/* Before a lock is given back: of another thread, or of none. */
static inline int holdfast_debug_give(const char *what, const void *lock, uint32_t word, int is_free, const char *file, int line) {
    struct holdfast_debug_row *row = holdfast_debug_open(lock);
    int self = holdfast_debug_self(), is_mine, is_known;
    struct holdfast_debug_entry *mine = holdfast_debug_find(row, lock, HOLDFAST_DEBUG_HELD, self);
    struct holdfast_debug_entry *other = holdfast_debug_find(row, lock, HOLDFAST_DEBUG_HELD, 0);
    struct holdfast_debug_entry *past = holdfast_debug_find(row, lock, HOLDFAST_DEBUG_PAST, 0);
    char text[HOLDFAST_DEBUG_TEXT];
    is_mine = mine != NULL;
    if (mine && --mine->count == 0) holdfast_debug_write(mine, lock, HOLDFAST_DEBUG_PAST, file, line);
    if (is_mine)
        is_known = 1;
    else if (word == HOLDFAST_DEBUG_DESTROYED)
        is_known = snprintf(text, sizeof text, "%s %p: it was destroyed at %s:%d", what, lock, past ? past->file : "?",
                            past ? past->line : 0);
    else if (other)
        is_known = snprintf(text, sizeof text, "%s %p: thread %d does not hold it; thread %d took it at %s:%d", what, lock, self,
                            other->thread, other->file, other->line);
    else if (is_free && past)
        is_known = snprintf(text, sizeof text, "%s %p: no thread holds it; thread %d gave it back at %s:%d", what, lock, past->thread,
                            past->file, past->line);
    else
        is_known = is_free ? snprintf(text, sizeof text, "%s %p: no thread holds it", what, lock) : 0;
    holdfast_debug_close(row);
    if (is_mine || !is_known) return 0;
    return holdfast_debug_misuse(word == HOLDFAST_DEBUG_DESTROYED ? EINVAL : EPERM, file, line, text);
}

/* A lock that is held or waited for must not go. hints: what may stand in the word of a free one. */
static inline int holdfast_debug_destroy(const char *what, uint32_t *word, uint32_t hints, const char *file, int line) {
    struct holdfast_debug_row *row = holdfast_debug_open(word);
    struct holdfast_debug_entry *held = holdfast_debug_find(row, word, HOLDFAST_DEBUG_HELD, 0);
    uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    char text[HOLDFAST_DEBUG_TEXT];
    int error = (seen & ~hints) == 0 ? 0 : seen == HOLDFAST_DEBUG_DESTROYED ? EINVAL : EBUSY;
    if (held)
        snprintf(text, sizeof text, "%s %p: thread %d took it at %s:%d", what, (void *)word, held->thread, held->file, held->line);
    else
        snprintf(text, sizeof text, "%s %p: %s", what, (void *)word,
                 error == EINVAL ? "it was destroyed before" : "it is held, or threads wait for it");
    if (!error) __atomic_store_n(word, HOLDFAST_DEBUG_DESTROYED, __ATOMIC_RELAXED);
    holdfast_debug_close(row);
    if (error) return holdfast_debug_misuse(error, file, line, text);
    holdfast_debug_note(word, HOLDFAST_DEBUG_PAST, file, line);
    return 0;
}

#define HOLDFAST_DEBUG_TAKE(name, parameters, word, what, may_wait, call)                                    \
    static inline int holdfast_debug_##name parameters {                                                     \
        int result = holdfast_debug_before(what, word, __atomic_load_n(word, __ATOMIC_RELAXED), may_wait, file, line); \
        if (result == 0) result = call;                                                                      \
        if (result == 0) holdfast_debug_note(word, HOLDFAST_DEBUG_HELD, file, line);                         \
        return result;                                                                                       \
    }
#define HOLDFAST_DEBUG_AT const char *file, int line

HOLDFAST_DEBUG_TAKE(mutex_lock, (holdfast_mutex_t * lock, int flag, HOLDFAST_DEBUG_AT), &lock->word, "lock of mutex", 1,
                    holdfast_mutex_lock_in(lock, flag))
HOLDFAST_DEBUG_TAKE(mutex_trylock, (holdfast_mutex_t * lock, HOLDFAST_DEBUG_AT), &lock->word, "lock of mutex", 0,
                    holdfast_mutex_trylock(lock))
HOLDFAST_DEBUG_TAKE(mutex_clocklock, (holdfast_mutex_t * lock, int clock, const struct timespec *until, int flag, HOLDFAST_DEBUG_AT),
                    &lock->word, "lock of mutex", until == NULL, holdfast_mutex_clocklock_in(lock, clock, until, flag))
HOLDFAST_DEBUG_TAKE(rwlock_rdlock, (holdfast_rwlock_t * lock, int flag, HOLDFAST_DEBUG_AT), &lock->state, "read lock of rwlock", 1,
                    holdfast_rwlock_rdlock_in(lock, flag))
HOLDFAST_DEBUG_TAKE(rwlock_wrlock, (holdfast_rwlock_t * lock, int flag, HOLDFAST_DEBUG_AT), &lock->state, "write lock of rwlock", 1,
                    holdfast_rwlock_wrlock_in(lock, flag))
HOLDFAST_DEBUG_TAKE(rwlock_tryrdlock, (holdfast_rwlock_t * lock, HOLDFAST_DEBUG_AT), &lock->state, "read lock of rwlock", 0,
                    holdfast_rwlock_tryrdlock(lock))
HOLDFAST_DEBUG_TAKE(rwlock_trywrlock, (holdfast_rwlock_t * lock, HOLDFAST_DEBUG_AT), &lock->state, "write lock of rwlock", 0,
                    holdfast_rwlock_trywrlock(lock))

#define HOLDFAST_DEBUG_GIVE(name, type, word, what, is_free, call)                                           \
    static inline int holdfast_debug_##name(type *lock, int flag, HOLDFAST_DEBUG_AT) {                       \
        uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);                                             \
        int result = holdfast_debug_give(what, word, seen, is_free, file, line);                             \
        return result ? result : call;                                                                       \
    }
HOLDFAST_DEBUG_GIVE(mutex_unlock, holdfast_mutex_t, &lock->word, "unlock of mutex", !(seen & HOLDFAST_LOCKED),
                    holdfast_mutex_unlock_in(lock, flag))
HOLDFAST_DEBUG_GIVE(rwlock_rdunlock, holdfast_rwlock_t, &lock->state, "unlock of rwlock", holdfast_rwlock_is_free(seen),
                    holdfast_rwlock_rdunlock_in(lock, flag))
HOLDFAST_DEBUG_GIVE(rwlock_wrunlock, holdfast_rwlock_t, &lock->state, "unlock of rwlock", holdfast_rwlock_is_free(seen),
                    holdfast_rwlock_wrunlock_in(lock, flag))

/* The wait gives the mutex back and takes it again. */
static inline int holdfast_debug_cond_wait(holdfast_cond_t *cond, holdfast_mutex_t *mutex, int clock, const struct timespec *until, int flag,
                                           HOLDFAST_DEBUG_AT) {
    uint32_t seen = __atomic_load_n(&mutex->word, __ATOMIC_RELAXED);
    int result;
    if (until && !holdfast_is_time(until)) return EINVAL;
    result = holdfast_debug_give("wait with mutex", &mutex->word, seen, !(seen & HOLDFAST_LOCKED), file, line);
    if (result != 0) return result;
    result = holdfast_cond_clockwait_in(cond, mutex, clock, until, flag);
    holdfast_debug_note(&mutex->word, HOLDFAST_DEBUG_HELD, file, line);
    return result;
}

#define HOLDFAST_HERE __FILE__, __LINE__
#define holdfast_mutex_lock(lock) holdfast_debug_mutex_lock(lock, HOLDFAST_PRIVATE, HOLDFAST_HERE)
#define holdfast_mutex_lock_pshared(lock) holdfast_debug_mutex_lock(lock, HOLDFAST_PSHARED, HOLDFAST_HERE)
#define holdfast_mutex_trylock(lock) holdfast_debug_mutex_trylock(lock, HOLDFAST_HERE)
#define holdfast_mutex_clocklock(lock, clock, until) \
    holdfast_debug_mutex_clocklock(lock, clock, until, HOLDFAST_PRIVATE, HOLDFAST_HERE)
#define holdfast_mutex_clocklock_pshared(lock, clock, until) \
    holdfast_debug_mutex_clocklock(lock, clock, until, HOLDFAST_PSHARED, HOLDFAST_HERE)
#define holdfast_mutex_unlock(lock) holdfast_debug_mutex_unlock(lock, HOLDFAST_PRIVATE, HOLDFAST_HERE)
#define holdfast_mutex_unlock_pshared(lock) holdfast_debug_mutex_unlock(lock, HOLDFAST_PSHARED, HOLDFAST_HERE)
#define holdfast_mutex_destroy(lock) holdfast_debug_destroy("destruction of mutex", &(lock)->word, HOLDFAST_ARRIVES, HOLDFAST_HERE)
#define holdfast_rwlock_rdlock(lock) holdfast_debug_rwlock_rdlock(lock, HOLDFAST_PRIVATE, HOLDFAST_HERE)
#define holdfast_rwlock_rdlock_pshared(lock) holdfast_debug_rwlock_rdlock(lock, HOLDFAST_PSHARED, HOLDFAST_HERE)
#define holdfast_rwlock_wrlock(lock) holdfast_debug_rwlock_wrlock(lock, HOLDFAST_PRIVATE, HOLDFAST_HERE)
#define holdfast_rwlock_wrlock_pshared(lock) holdfast_debug_rwlock_wrlock(lock, HOLDFAST_PSHARED, HOLDFAST_HERE)
#define holdfast_rwlock_tryrdlock(lock) holdfast_debug_rwlock_tryrdlock(lock, HOLDFAST_HERE)
#define holdfast_rwlock_trywrlock(lock) holdfast_debug_rwlock_trywrlock(lock, HOLDFAST_HERE)
#define holdfast_rwlock_rdunlock(lock) holdfast_debug_rwlock_rdunlock(lock, HOLDFAST_PRIVATE, HOLDFAST_HERE)
#define holdfast_rwlock_rdunlock_pshared(lock) holdfast_debug_rwlock_rdunlock(lock, HOLDFAST_PSHARED, HOLDFAST_HERE)
#define holdfast_rwlock_wrunlock(lock) holdfast_debug_rwlock_wrunlock(lock, HOLDFAST_PRIVATE, HOLDFAST_HERE)
#define holdfast_rwlock_wrunlock_pshared(lock) holdfast_debug_rwlock_wrunlock(lock, HOLDFAST_PSHARED, HOLDFAST_HERE)
#define holdfast_rwlock_destroy(lock) holdfast_debug_destroy("destruction of rwlock", &(lock)->state, 0u, HOLDFAST_HERE)
#define holdfast_cond_wait(cond, mutex) holdfast_debug_cond_wait(cond, mutex, 0, NULL, HOLDFAST_PRIVATE, HOLDFAST_HERE)
#define holdfast_cond_wait_pshared(cond, mutex) holdfast_debug_cond_wait(cond, mutex, 0, NULL, HOLDFAST_PSHARED, HOLDFAST_HERE)
#define holdfast_cond_clockwait(cond, mutex, clock, until) \
    holdfast_debug_cond_wait(cond, mutex, clock, until, HOLDFAST_PRIVATE, HOLDFAST_HERE)
#define holdfast_cond_clockwait_pshared(cond, mutex, clock, until) \
    holdfast_debug_cond_wait(cond, mutex, clock, until, HOLDFAST_PSHARED, HOLDFAST_HERE)

#endif
