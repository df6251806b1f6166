/* Conditions: clocks, errors, cancellation, destruction, and mutexes of each kind. */
#include "pthread_common.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void on_clock(clockid_t clock) {
    pthread_condattr_t attributes;
    pthread_cond_t timed;
    struct timespec until, wrong = {1, 1000000000}, negative = {1, -1}, past = {-1, 0};
    printf("-- clock %d\n", (int)clock);
    pthread_condattr_init(&attributes);
    IS(pthread_condattr_setclock(&attributes, clock), 0);
    memset(&timed, 0x5a, sizeof timed);
    IS(pthread_cond_init(&timed, &attributes), 0);
    IS(pthread_mutex_lock(&mutex), 0);
    until = from_now(clock, 30);
    IS(pthread_cond_timedwait(&timed, &mutex, &until), ETIMEDOUT);
    /* On the other clock it would have lasted for years, or have ended before its time. */
    HOLDS(from_now(clock, 0).tv_sec - until.tv_sec < 60);
    HOLDS(from_now(clock, 0).tv_sec > until.tv_sec || from_now(clock, 0).tv_nsec >= until.tv_nsec);
    IS(pthread_cond_timedwait(&timed, &mutex, &wrong), EINVAL);
    IS(pthread_cond_timedwait(&timed, &mutex, &negative), EINVAL);
    IS(pthread_cond_timedwait(&timed, &mutex, &past), ETIMEDOUT);
    until = from_now(CLOCK_MONOTONIC, 30);
    IS(pthread_cond_clockwait(&timed, &mutex, CLOCK_MONOTONIC, &until), ETIMEDOUT);
    until = from_now(CLOCK_REALTIME, 30);
    IS(pthread_cond_clockwait(&timed, &mutex, CLOCK_REALTIME, &until), ETIMEDOUT);
    IS(pthread_cond_clockwait(&timed, &mutex, CLOCK_PROCESS_CPUTIME_ID, &until), EINVAL);
    IS(mutex.__data.__owner == gettid(), 1);
    IS(pthread_mutex_unlock(&mutex), 0);
    IS(pthread_cond_signal(&timed), 0);
    IS(pthread_cond_broadcast(&timed), 0);
    IS(pthread_cond_destroy(&timed), 0);
}

/* --- cancellation --- */

struct cancelled {
    pthread_mutex_t *mutex;
    int is_timed, is_in, owner_in_handler, unlocked;
};

static void handler(void *data) {
    struct cancelled *state = data;
    state->owner_in_handler = state->mutex->__data.__owner == gettid();
    state->unlocked = pthread_mutex_unlock(state->mutex);
}

static void *wait_for_cancel(void *data) {
    struct cancelled *state = data;
    struct timespec until = from_now(CLOCK_REALTIME, 600000);
    pthread_mutex_lock(state->mutex);
    pthread_cleanup_push(handler, state);
    state->is_in = 1;
    for (;;) {
        if (state->is_timed)
            pthread_cond_timedwait(&cond, state->mutex, &until);
        else
            pthread_cond_wait(&cond, state->mutex);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancel(int is_timed, int is_before) {
    struct cancelled state = {&mutex, is_timed, 0, 0, -1};
    pthread_t waiter;
    if (is_before) pthread_mutex_lock(&mutex);
    waiter = start(wait_for_cancel, &state);
    if (is_before) {
        pthread_cancel(waiter);
        pthread_mutex_unlock(&mutex);
    } else {
        for (int is_in = 0; !is_in; sleep_ms(1)) {
            pthread_mutex_lock(&mutex);
            is_in = state.is_in;
            pthread_mutex_unlock(&mutex);
        }
        pthread_cancel(waiter);
    }
    HOLDS(end_of(waiter) == PTHREAD_CANCELED);
    IS(state.owner_in_handler, 1);
    IS(state.unlocked, 0);
    IS(pthread_mutex_trylock(&mutex), 0);
    IS(pthread_mutex_unlock(&mutex), 0);
}

/* A notification that meets a cancelled waiter reaches another. */
static int waiting, released;

static void leave_it(void *lock) { pthread_mutex_unlock(lock); }

static void *wait_for_release(void *unused) {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(leave_it, &mutex);
    waiting++;
    while (released == 0) pthread_cond_wait(&cond, &mutex);
    released--;
    pthread_cleanup_pop(1);
    return unused;
}

static void cancel_and_notify(int rounds) {
    for (int round = 0; round < rounds; round++) {
        pthread_t first, second;
        int is_first_cancelled;
        waiting = released = 0;
        first = start(wait_for_release, NULL);
        second = start(wait_for_release, NULL);
        for (int both = 0; !both;) {
            pthread_mutex_lock(&mutex);
            both = waiting == 2;
            pthread_mutex_unlock(&mutex);
        }
        pthread_mutex_lock(&mutex);
        released = 1;
        pthread_cond_signal(&cond);
        pthread_mutex_unlock(&mutex);
        pthread_cancel(first);
        is_first_cancelled = end_of(first) == PTHREAD_CANCELED;
        if (!is_first_cancelled) {
            pthread_mutex_lock(&mutex);
            released = 1;
            pthread_cond_signal(&cond);
            pthread_mutex_unlock(&mutex);
        }
        if (end_of(second) != NULL) abort();
    }
    puts("a notification reached one that was not cancelled");
}

/* --- destroyed at the earliest time --- */

struct box {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int waiting, is_open;
};

static void *wait_in_box(void *data) {
    struct box *box = data;
    pthread_mutex_lock(&box->mutex);
    box->waiting++;
    while (!box->is_open) pthread_cond_wait(&box->cond, &box->mutex);
    box->waiting--;
    pthread_mutex_unlock(&box->mutex);
    return NULL;
}

/* POSIX: after a broadcast that woke all, under the mutex, the condition may be destroyed. It is overwritten then, so
 * that a late access is seen. */
static void destroy_after_broadcast(int rounds) {
    for (int round = 0; round < rounds; round++) {
        struct box *box = shared_memory(4096);
        pthread_t waiters[3];
        pthread_mutex_init(&box->mutex, NULL);
        pthread_cond_init(&box->cond, NULL);
        for (int n = 0; n < 3; n++) waiters[n] = start(wait_in_box, box);
        for (int all = 0; !all;) {
            pthread_mutex_lock(&box->mutex);
            all = box->waiting == 3;
            if (all) {
                box->is_open = 1;
                pthread_cond_broadcast(&box->cond);
                if (pthread_cond_destroy(&box->cond) != 0) abort();
                memset(&box->cond, 0xff, sizeof box->cond);
            }
            pthread_mutex_unlock(&box->mutex);
        }
        for (int n = 0; n < 3; n++) end_of(waiters[n]);
        for (size_t n = 0; n < sizeof box->cond; n++)
            if (((unsigned char *)&box->cond)[n] != 0xff) abort();
        if (pthread_mutex_destroy(&box->mutex) != 0) abort();
        munmap(box, 4096);
    }
    puts("destroyed after a broadcast");
}

/* --- each kind of mutex --- */

struct pair {
    pthread_mutex_t *mutex;
    pthread_cond_t *cond;
    int turn;
};

static void *other_side(void *data) {
    struct pair *pair = data;
    for (int round = 0; round < 200; round++) {
        pthread_mutex_lock(pair->mutex);
        while (pair->turn != 1) pthread_cond_wait(pair->cond, pair->mutex);
        pair->turn = 0;
        pthread_cond_signal(pair->cond);
        pthread_mutex_unlock(pair->mutex);
    }
    return NULL;
}

static void play(pthread_mutex_t *with, pthread_cond_t *on, const char *name) {
    struct pair pair = {with, on, 0};
    struct timespec until = from_now(CLOCK_REALTIME, 20);
    pthread_t other = start(other_side, &pair);
    int result;
    for (int round = 0; round < 200; round++) {
        pthread_mutex_lock(with);
        pair.turn = 1;
        pthread_cond_signal(on);
        while (pair.turn != 0) pthread_cond_wait(on, with);
        pthread_mutex_unlock(with);
    }
    end_of(other);
    IS(pthread_mutex_lock(with), 0);
    /* A wait may end before its time without a notification. */
    do {
        result = pthread_cond_timedwait(on, with, &until);
    } while (result == 0);
    IS(result, ETIMEDOUT);
    IS(pthread_mutex_unlock(with), 0);
    printf("200 turns with %s\n", name);
}

static void kinds(void) {
    static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    static pthread_mutex_t errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    pthread_mutexattr_t attributes;
    pthread_condattr_t shared;
    pthread_mutex_t inherits, robust, shared_mutex;
    pthread_cond_t shared_cond;
    pthread_mutexattr_init(&attributes);
    IS(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT), 0);
    IS(pthread_mutex_init(&inherits, &attributes), 0);
    IS(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_NONE), 0);
    IS(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST), 0);
    IS(pthread_mutex_init(&robust, &attributes), 0);
    IS(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_STALLED), 0);
    IS(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
    IS(pthread_mutex_init(&shared_mutex, &attributes), 0);
    pthread_condattr_init(&shared);
    IS(pthread_condattr_setpshared(&shared, PTHREAD_PROCESS_SHARED), 0);
    IS(pthread_cond_init(&shared_cond, &shared), 0);
    play(&mutex, &cond, "a normal mutex");
    play(&recursive, &cond, "a recursive mutex");
    play(&errorcheck, &cond, "an errorcheck mutex");
    play(&inherits, &cond, "a mutex with priority inheritance");
    play(&robust, &cond, "a robust mutex");
    play(&shared_mutex, &cond, "a process-shared mutex");
    play(&shared_mutex, &shared_cond, "both process-shared");
    play(&mutex, &shared_cond, "a process-shared condition");
    IS(pthread_cond_destroy(&shared_cond), 0);
    /* Not the owner: the wait does not begin. */
    IS(pthread_cond_wait(&cond, &errorcheck), EPERM);
    IS(pthread_mutex_destroy(&inherits), 0);
    IS(pthread_mutex_destroy(&robust), 0);
    IS(pthread_mutex_destroy(&shared_mutex), 0);
}

static void *sleeps(void *data) {
    struct box *box = data;
    return wait_in_box(box);
}

/* A mutex with which a thread waits is in use. */
static void busy_while_waiting(void) {
    static struct box box = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
    pthread_t sleeper = start(sleeps, &box);
    for (int is_in = 0; !is_in; sleep_ms(1)) {
        pthread_mutex_lock(&box.mutex);
        is_in = box.waiting;
        pthread_mutex_unlock(&box.mutex);
    }
    IS(pthread_mutex_destroy(&box.mutex), EBUSY);
    pthread_mutex_lock(&box.mutex);
    box.is_open = 1;
    pthread_mutex_unlock(&box.mutex);
    IS(pthread_cond_signal(&box.cond), 0);
    end_of(sleeper);
    IS(pthread_mutex_destroy(&box.mutex), 0);
}

int main(void) {
    on_clock(CLOCK_REALTIME);
    on_clock(CLOCK_MONOTONIC);
    for (int timed = 0; timed < 2; timed++)
        for (int before = 0; before < 2; before++) cancel(timed, before);
    cancel_and_notify(200);
    destroy_after_broadcast(300);
    kinds();
    busy_while_waiting();
    puts("ok");
    return 0;
}
