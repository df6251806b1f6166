/* Mutexes: the kinds, their errors, the deadlines, what is left of them in memory. */
#include "pthread_common.h"

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;

static void *try_in_thread(void *mutex) { return (void *)(intptr_t)pthread_mutex_trylock(mutex); }
static void *unlock_in_thread(void *mutex) { return (void *)(intptr_t)pthread_mutex_unlock(mutex); }

static void *wait_a_while_in_thread(void *mutex) {
    struct timespec until = from_now(CLOCK_REALTIME, 20), steady = from_now(CLOCK_MONOTONIC, 20);
    struct timespec wrong = {1, 1000000000}, negative = {1, -1}, past = {-1, 0};
    IS(pthread_mutex_timedlock(mutex, &until), ETIMEDOUT);
    IS(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &steady), ETIMEDOUT);
    IS(pthread_mutex_clocklock(mutex, CLOCK_REALTIME, &until), ETIMEDOUT);
    IS(pthread_mutex_timedlock(mutex, &wrong), EINVAL);
    IS(pthread_mutex_timedlock(mutex, &negative), EINVAL);
    IS(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &wrong), EINVAL);
    IS(pthread_mutex_timedlock(mutex, &past), ETIMEDOUT);
    IS(pthread_mutex_clocklock(mutex, CLOCK_PROCESS_CPUTIME_ID, &until), EINVAL);
    return NULL;
}

static void *lock_soon_in_thread(void *mutex) {
    struct timespec until = from_now(CLOCK_MONOTONIC, 60000);
    int result = pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
    return (void *)(intptr_t)(result ? result : pthread_mutex_unlock(mutex));
}

/* What holds for each kind. */
static void common(pthread_mutex_t *mutex, const char *name) {
    struct timespec wrong = {0, -5};
    pthread_t waiter;
    printf("-- %s\n", name);
    IS(pthread_mutex_lock(mutex), 0);
    IS(mutex->__data.__owner == gettid(), 1);
    IS(in_thread(try_in_thread, mutex), EBUSY);
    IS(in_thread(wait_a_while_in_thread, mutex), 0);
    IS(pthread_mutex_destroy(mutex), EBUSY);
    waiter = start(lock_soon_in_thread, mutex);
    sleep_ms(10);
    IS(pthread_mutex_unlock(mutex), 0);
    IS((int)(intptr_t)end_of(waiter), 0);
    IS(mutex->__data.__owner, 0);
    IS(pthread_mutex_trylock(mutex), 0);
    IS(pthread_mutex_unlock(mutex), 0);
    /* A free lock is taken with any deadline. */
    IS(pthread_mutex_timedlock(mutex, &wrong), 0);
    IS(pthread_mutex_unlock(mutex), 0);
}

static void destroyed(pthread_mutex_t *mutex) {
    IS(pthread_mutex_destroy(mutex), 0);
    IS(pthread_mutex_lock(mutex), EINVAL);
    IS(pthread_mutex_trylock(mutex), EINVAL);
    IS(pthread_mutex_unlock(mutex), EINVAL);
    IS(pthread_mutex_init(mutex, NULL), 0);
    IS(pthread_mutex_lock(mutex), 0);
    IS(pthread_mutex_unlock(mutex), 0);
    IS(pthread_mutex_destroy(mutex), 0);
}

static void check_recursive(pthread_mutex_t *mutex) {
    struct timespec until = from_now(CLOCK_REALTIME, 60000);
    IS(pthread_mutex_unlock(mutex), EPERM);
    IS(pthread_mutex_lock(mutex), 0);
    IS(pthread_mutex_lock(mutex), 0);
    IS(pthread_mutex_trylock(mutex), 0);
    IS(pthread_mutex_timedlock(mutex, &until), 0);
    IS((int)mutex->__data.__count, 4);
    IS(in_thread(unlock_in_thread, mutex), EPERM);
    mutex->__data.__count = UINT_MAX;
    IS(pthread_mutex_lock(mutex), EAGAIN);
    IS(pthread_mutex_trylock(mutex), EAGAIN);
    mutex->__data.__count = 4;
    for (int n = 0; n < 3; n++) IS(pthread_mutex_unlock(mutex), 0);
    IS(in_thread(try_in_thread, mutex), EBUSY);
    IS(pthread_mutex_unlock(mutex), 0);
    IS(pthread_mutex_unlock(mutex), EPERM);
}

static void check_errorcheck(pthread_mutex_t *mutex) {
    struct timespec until = from_now(CLOCK_REALTIME, 60000);
    IS(pthread_mutex_unlock(mutex), EPERM);
    IS(pthread_mutex_lock(mutex), 0);
    IS(pthread_mutex_lock(mutex), EDEADLK);
    IS(pthread_mutex_timedlock(mutex, &until), EDEADLK);
    IS(pthread_mutex_trylock(mutex), EBUSY);
    IS(in_thread(unlock_in_thread, mutex), EPERM);
    IS(pthread_mutex_unlock(mutex), 0);
    IS(pthread_mutex_unlock(mutex), EPERM);
}

static pthread_mutex_t *with_kind(int kind) {
    static pthread_mutex_t mutex;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    IS(pthread_mutexattr_settype(&attributes, kind), 0);
    memset(&mutex, 0x5a, sizeof mutex);
    IS(pthread_mutex_init(&mutex, &attributes), 0);
    return &mutex;
}

static void c11(void) {
    mtx_t plain, again;
    cnd_t cond;
    struct timespec until = from_now(CLOCK_REALTIME, 10);
    IS(mtx_init(&plain, mtx_timed), thrd_success);
    IS(mtx_init(&again, mtx_plain | mtx_recursive), thrd_success);
    IS(cnd_init(&cond), thrd_success);
    IS(mtx_lock(&plain), thrd_success);
    IS(mtx_trylock(&plain), thrd_busy);
    IS(mtx_timedlock(&plain, &until), thrd_timedout);
    IS(cnd_timedwait(&cond, &plain, &until), thrd_timedout);
    IS(cnd_signal(&cond), thrd_success);
    IS(cnd_broadcast(&cond), thrd_success);
    IS(mtx_unlock(&plain), thrd_success);
    IS(mtx_lock(&again), thrd_success);
    IS(mtx_trylock(&again), thrd_success);
    IS(mtx_unlock(&again), thrd_success);
    IS(mtx_unlock(&again), thrd_success);
    IS(mtx_unlock(&again), thrd_error);
    mtx_destroy(&plain);
    mtx_destroy(&again);
    cnd_destroy(&cond);
}

int main(void) {
    int ceiling;
    common(&normal, "normal");
    common(&recursive, "recursive");
    common(&errorcheck, "errorcheck");
    common(&adaptive, "adaptive");
    check_recursive(&recursive);
    check_errorcheck(&errorcheck);
    common(with_kind(PTHREAD_MUTEX_NORMAL), "made normal");
    common(with_kind(PTHREAD_MUTEX_DEFAULT), "made default");
    common(with_kind(PTHREAD_MUTEX_ADAPTIVE_NP), "made adaptive");
    check_recursive(with_kind(PTHREAD_MUTEX_RECURSIVE));
    check_errorcheck(with_kind(PTHREAD_MUTEX_ERRORCHECK));
    IS(pthread_mutex_consistent(&normal), EINVAL);
    IS(pthread_mutex_getprioceiling(&normal, &ceiling), EINVAL);
    destroyed(&normal);
    destroyed(&recursive);
    c11();
    puts("ok");
    return 0;
}
