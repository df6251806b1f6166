/* Several processes: handlers of fork, locks in shared memory, robust ones whose owner dies, and a child that is executed. */
#include "pthread_common.h"

static pthread_mutex_t around_fork = PTHREAD_MUTEX_INITIALIZER;
static int is_over;

static void before(void) { pthread_mutex_lock(&around_fork); }
static void after(void) { pthread_mutex_unlock(&around_fork); }

static void *keep_locking(void *unused) {
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        pthread_mutex_lock(&around_fork);
        pthread_mutex_unlock(&around_fork);
    }
    return unused;
}

static void *take_it(void *unused) {
    pthread_mutex_lock(&around_fork);
    pthread_mutex_unlock(&around_fork);
    return unused;
}

/* Handlers of fork that lock and unlock, while other threads take the lock. The child uses it, with threads too. */
static void forks(int rounds) {
    pthread_t others[2];
    pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    pthread_atfork(before, after, after);
    for (int n = 0; n < 2; n++) others[n] = start(keep_locking, NULL);
    for (int round = 0; round < rounds; round++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            take_it(NULL);
            end_of(start(take_it, NULL));
            /* The child's thread has an id that differs from its parent's. */
            if (pthread_mutex_lock(&recursive) != 0 || recursive.__data.__owner != gettid()) _exit(2);
            if (pthread_mutex_lock(&recursive) != 0 || pthread_mutex_unlock(&recursive) != 0) _exit(3);
            _exit(pthread_mutex_unlock(&recursive));
        }
        if (end_of_child(child) != 0) abort();
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    for (int n = 0; n < 2; n++) end_of(others[n]);
    puts("forks with handlers");
}

struct shared {
    pthread_mutex_t mutex, robust, inherits;
    pthread_cond_t cond;
    pthread_rwlock_t rwlock;
    pthread_spinlock_t spin;
    int turn;
    long count, spun, inherited;
};

static struct shared *make_shared(void) {
    struct shared *shared = shared_memory(sizeof *shared);
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    pthread_rwlockattr_t rwlock;
    pthread_mutexattr_init(&mutex);
    pthread_condattr_init(&cond);
    pthread_rwlockattr_init(&rwlock);
    IS(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED), 0);
    IS(pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED), 0);
    IS(pthread_condattr_setclock(&cond, CLOCK_MONOTONIC), 0);
    IS(pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED), 0);
    IS(pthread_mutex_init(&shared->mutex, &mutex), 0);
    IS(pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST), 0);
    IS(pthread_mutex_init(&shared->robust, &mutex), 0);
    IS(pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_STALLED), 0);
    IS(pthread_mutexattr_setprotocol(&mutex, PTHREAD_PRIO_INHERIT), 0);
    IS(pthread_mutex_init(&shared->inherits, &mutex), 0);
    IS(pthread_cond_init(&shared->cond, &cond), 0);
    IS(pthread_rwlock_init(&shared->rwlock, &rwlock), 0);
    IS(pthread_spin_init(&shared->spin, PTHREAD_PROCESS_SHARED), 0);
    return shared;
}

static void play(struct shared *shared, int me) {
    for (int round = 0; round < 500; round++) {
        pthread_mutex_lock(&shared->mutex);
        while (shared->turn != me) pthread_cond_wait(&shared->cond, &shared->mutex);
        shared->turn = !me;
        pthread_cond_signal(&shared->cond);
        pthread_mutex_unlock(&shared->mutex);
        pthread_rwlock_wrlock(&shared->rwlock);
        shared->count++;
        pthread_rwlock_unlock(&shared->rwlock);
        pthread_spin_lock(&shared->spin);
        shared->spun++;
        pthread_spin_unlock(&shared->spin);
        pthread_mutex_lock(&shared->inherits);
        shared->inherited++;
        pthread_mutex_unlock(&shared->inherits);
    }
}

static void two_processes(void) {
    struct shared *shared = make_shared();
    struct timespec until = from_now(CLOCK_MONOTONIC, 20);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        play(shared, 1);
        _exit(0);
    }
    play(shared, 0);
    IS(end_of_child(child), 0);
    IS((int)shared->count, 1000);
    IS((int)shared->spun, 1000);
    IS((int)shared->inherited, 1000);
    IS(pthread_mutex_lock(&shared->mutex), 0);
    IS(pthread_cond_timedwait(&shared->cond, &shared->mutex, &until), ETIMEDOUT);
    IS(pthread_mutex_unlock(&shared->mutex), 0);
    child = fork();
    if (child == 0) {
        pthread_mutex_lock(&shared->robust);
        _exit(0);
    }
    IS(end_of_child(child), 0);
    IS(pthread_mutex_lock(&shared->robust), EOWNERDEAD);
    IS(pthread_mutex_consistent(&shared->robust), 0);
    IS(pthread_mutex_unlock(&shared->robust), 0);
    child = fork();
    if (child == 0) {
        pthread_mutex_lock(&shared->robust);
        raise(SIGKILL);
    }
    IS(end_of_child(child), 128 + SIGKILL);
    IS(pthread_mutex_trylock(&shared->robust), EOWNERDEAD);
    IS(pthread_mutex_unlock(&shared->robust), 0);
    IS(pthread_mutex_lock(&shared->robust), ENOTRECOVERABLE);
    IS(pthread_mutex_destroy(&shared->robust), 0);
}

int main(int arguments, char **argument) {
    pid_t child;
    static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    if (arguments > 1) {
        pthread_mutex_lock(&own);
        /* Nothing runs at the end of this one. */
        return raise(SIGKILL);
    }
    forks(100);
    two_processes();
    fflush(stdout);
    child = fork();
    if (child == 0) {
        execl(argument[0], argument[0], "executed", (char *)NULL);
        _exit(127);
    }
    IS(end_of_child(child), 128 + SIGKILL);
    puts("ok");
    return 0;
}
