/* Read-write locks of each kind, and spin locks. */
#include "pthread_common.h"

static pthread_rwlock_t readers_first = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t writers_first = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

static void *write_in_thread(void *lock) {
    int result = pthread_rwlock_wrlock(lock);
    if (result == 0) pthread_rwlock_unlock(lock);
    return (void *)(intptr_t)result;
}
static void *try_write(void *lock) { return (void *)(intptr_t)pthread_rwlock_trywrlock(lock); }
static void *try_read(void *lock) {
    int result = pthread_rwlock_tryrdlock(lock);
    if (result == 0) pthread_rwlock_unlock(lock);
    return (void *)(intptr_t)result;
}

static void *wait_a_while(void *lock) {
    struct timespec until = from_now(CLOCK_REALTIME, 20), steady = from_now(CLOCK_MONOTONIC, 20), wrong = {1, 1000000000};
    IS(pthread_rwlock_timedwrlock(lock, &until), ETIMEDOUT);
    IS(pthread_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &steady), ETIMEDOUT);
    IS(pthread_rwlock_timedwrlock(lock, &wrong), EINVAL);
    IS(pthread_rwlock_timedrdlock(lock, &wrong), EINVAL);
    IS(pthread_rwlock_clockrdlock(lock, CLOCK_PROCESS_CPUTIME_ID, &until), EINVAL);
    IS(pthread_rwlock_clockwrlock(lock, CLOCK_PROCESS_CPUTIME_ID, &until), EINVAL);
    return NULL;
}

static void *wait_to_read_a_while(void *lock) {
    struct timespec until = from_now(CLOCK_REALTIME, 20), steady = from_now(CLOCK_MONOTONIC, 20);
    IS(pthread_rwlock_timedrdlock(lock, &until), ETIMEDOUT);
    IS(pthread_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, &steady), ETIMEDOUT);
    return NULL;
}

static void common(pthread_rwlock_t *lock, const char *name) {
    printf("-- %s\n", name);
    IS(pthread_rwlock_rdlock(lock), 0);
    IS(pthread_rwlock_tryrdlock(lock), 0);
    IS(in_thread(try_read, lock), 0);
    IS(in_thread(try_write, lock), EBUSY);
    IS(in_thread(wait_a_while, lock), 0);
    IS(pthread_rwlock_unlock(lock), 0);
    IS(pthread_rwlock_unlock(lock), 0);
    IS(pthread_rwlock_wrlock(lock), 0);
    IS(lock->__data.__cur_writer == gettid(), 1);
    IS(pthread_rwlock_wrlock(lock), EDEADLK);
    IS(pthread_rwlock_rdlock(lock), EDEADLK);
    IS(pthread_rwlock_trywrlock(lock), EBUSY);
    IS(pthread_rwlock_tryrdlock(lock), EBUSY);
    IS(in_thread(try_read, lock), EBUSY);
    IS(in_thread(wait_a_while, lock), 0);
    IS(in_thread(wait_to_read_a_while, lock), 0);
    IS(pthread_rwlock_unlock(lock), 0);
    IS(lock->__data.__cur_writer, 0);
    IS(pthread_rwlock_trywrlock(lock), 0);
    IS(pthread_rwlock_unlock(lock), 0);
}

/* glibc's default: a thread that reads may read again while a writer waits. */
static void read_twice_under_a_waiting_writer(pthread_rwlock_t *lock) {
    pthread_t writer;
    IS(pthread_rwlock_rdlock(lock), 0);
    writer = start(write_in_thread, lock);
    sleep_ms(30);
    IS(pthread_rwlock_rdlock(lock), 0);
    IS(pthread_rwlock_unlock(lock), 0);
    IS(pthread_rwlock_unlock(lock), 0);
    end_of(writer);
}

static void *read_in_thread(void *lock) {
    int result = pthread_rwlock_rdlock(lock);
    if (result == 0) pthread_rwlock_unlock(lock);
    return (void *)(intptr_t)result;
}

/* The other kind: readers that come later wait behind a waiting writer, and all come to their end. */
static void writer_comes_first(pthread_rwlock_t *lock) {
    pthread_t writer, reader;
    int result;
    IS(pthread_rwlock_rdlock(lock), 0);
    writer = start(write_in_thread, lock);
    do {
        sleep_ms(1);
        result = in_thread(try_read, lock);
    } while (result == 0);
    IS(result, EBUSY);
    reader = start(read_in_thread, lock);
    sleep_ms(10);
    IS(pthread_rwlock_unlock(lock), 0);
    IS((int)(intptr_t)end_of(writer), 0);
    IS((int)(intptr_t)end_of(reader), 0);
}

static pthread_rwlock_t *with_kind(int kind, int shared) {
    pthread_rwlock_t *lock = shared_memory(4096);
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    IS(pthread_rwlockattr_setkind_np(&attributes, kind), 0);
    IS(pthread_rwlockattr_setpshared(&attributes, shared), 0);
    IS(pthread_rwlock_init(lock, &attributes), 0);
    return lock;
}

static long counted;

static void *count_up(void *lock) {
    for (int n = 0; n < 20000; n++) {
        if (n % 4 == 0) {
            pthread_rwlock_wrlock(lock);
            counted++;
        } else {
            pthread_rwlock_rdlock(lock);
        }
        pthread_rwlock_unlock(lock);
    }
    return NULL;
}

static void crowd(pthread_rwlock_t *lock) {
    pthread_t threads[6];
    counted = 0;
    for (int n = 0; n < 6; n++) threads[n] = start(count_up, lock);
    for (int n = 0; n < 6; n++) end_of(threads[n]);
    IS((int)counted, 30000);
}

static pthread_spinlock_t spin;

static void *count_spinning(void *data) {
    pthread_spinlock_t *lock = data;
    for (int n = 0; n < 20000; n++) {
        pthread_spin_lock(lock);
        counted++;
        pthread_spin_unlock(lock);
    }
    return NULL;
}

static void *try_spin(void *unused) {
    (void)unused;
    return (void *)(intptr_t)pthread_spin_trylock(&spin);
}

static void spinning(int shared) {
    pthread_t threads[4];
    counted = 0;
    IS(pthread_spin_init(&spin, shared), 0);
    IS(pthread_spin_lock(&spin), 0);
    IS(pthread_spin_trylock(&spin), EBUSY);
    IS(in_thread(try_spin, NULL), EBUSY);
    IS(pthread_spin_unlock(&spin), 0);
    IS(pthread_spin_trylock(&spin), 0);
    IS(pthread_spin_unlock(&spin), 0);
    for (int n = 0; n < 4; n++) threads[n] = start(count_spinning, (void *)&spin);
    for (int n = 0; n < 4; n++) end_of(threads[n]);
    IS((int)counted, 80000);
    IS(pthread_spin_destroy(&spin), 0);
}

int main(void) {
    common(&readers_first, "readers first");
    common(&writers_first, "writers first");
    read_twice_under_a_waiting_writer(&readers_first);
    writer_comes_first(&writers_first);
    for (int shared = 0; shared < 2; shared++)
        for (int kind = 0; kind < 3; kind++) {
            pthread_rwlock_t *lock = with_kind(kind, shared);
            common(lock, "made");
            crowd(lock);
            if (kind != PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) read_twice_under_a_waiting_writer(lock);
            IS(pthread_rwlock_destroy(lock), 0);
            munmap(lock, 4096);
        }
    spinning(PTHREAD_PROCESS_PRIVATE);
    spinning(PTHREAD_PROCESS_SHARED);
    puts("ok");
    return 0;
}
