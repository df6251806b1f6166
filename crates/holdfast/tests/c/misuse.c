/* One misuse for each name, under HOLDFAST_DEBUG. With HOLDFAST_DEBUG_RETURN the call returns the error, which is the exit code. */
#include "holdfast.h"
#include <string.h>

static holdfast_mutex_t mutex = HOLDFAST_MUTEX_INITIALIZER;
static holdfast_rwlock_t rwlock = HOLDFAST_RWLOCK_INITIALIZER;
static holdfast_cond_t cond = HOLDFAST_COND_INITIALIZER;

static void *take(void *unused) {
    holdfast_mutex_lock(&mutex); /* TAKEN BY ANOTHER */
    return unused;
}

static void another_takes_it(void) {
    pthread_t other;
    pthread_create(&other, NULL, take, NULL);
    pthread_join(other, NULL);
}

/* What must not be complained about. */
static int use_well(void) {
    struct timespec soon;
    clock_gettime(CLOCK_MONOTONIC, &soon);
    for (int n = 0; n < 3; n++) {
        if (holdfast_mutex_lock(&mutex) || holdfast_mutex_trylock(&mutex) != EBUSY) return 1;
        if (holdfast_mutex_clocklock(&mutex, HOLDFAST_CLOCK_MONOTONIC, &soon) != ETIMEDOUT) return 2;
        if (holdfast_cond_clockwait(&cond, &mutex, HOLDFAST_CLOCK_MONOTONIC, &soon) != ETIMEDOUT) return 3;
        if (holdfast_mutex_unlock(&mutex) || holdfast_mutex_destroy(&mutex) || holdfast_mutex_init(&mutex)) return 4;
        if (holdfast_rwlock_rdlock(&rwlock) || holdfast_rwlock_tryrdlock(&rwlock)) return 5;
        if (holdfast_rwlock_rdunlock(&rwlock) || holdfast_rwlock_rdunlock(&rwlock)) return 6;
        if (holdfast_rwlock_wrlock(&rwlock) || holdfast_rwlock_wrunlock(&rwlock) || holdfast_rwlock_destroy(&rwlock)) return 7;
        /* The memory is used anew. */
        memset(&rwlock, 0, sizeof rwlock);
    }
    return 0;
}

int main(int arguments, char **argument) {
    const char *what = arguments > 1 ? argument[1] : "";
    if (strcmp(what, "unlock_of_another") == 0) {
        another_takes_it();
        return holdfast_mutex_unlock(&mutex);
    }
    if (strcmp(what, "unlock_twice") == 0) {
        holdfast_mutex_lock(&mutex);
        holdfast_mutex_unlock(&mutex);
        return holdfast_mutex_unlock(&mutex);
    }
    if (strcmp(what, "unlock_of_none") == 0) return holdfast_mutex_unlock(&mutex);
    if (strcmp(what, "lock_twice") == 0) {
        holdfast_mutex_lock(&mutex);
        return holdfast_mutex_lock(&mutex);
    }
    if (strcmp(what, "destroy_held") == 0) {
        another_takes_it();
        return holdfast_mutex_destroy(&mutex);
    }
    if (strcmp(what, "use_destroyed") == 0) {
        holdfast_mutex_destroy(&mutex);
        return holdfast_mutex_lock(&mutex);
    }
    if (strcmp(what, "wait_without_mutex") == 0) return holdfast_cond_wait(&cond, &mutex);
    if (strcmp(what, "write_twice") == 0) {
        holdfast_rwlock_wrlock(&rwlock);
        return holdfast_rwlock_wrlock(&rwlock);
    }
    if (strcmp(what, "write_under_read") == 0) {
        holdfast_rwlock_rdlock(&rwlock);
        return holdfast_rwlock_wrlock(&rwlock);
    }
    if (strcmp(what, "read_unlock_of_none") == 0) return holdfast_rwlock_rdunlock(&rwlock);
    return use_well();
}
