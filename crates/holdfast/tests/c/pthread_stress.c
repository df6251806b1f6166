/* Many producers and consumers at a small ring, through all ways to wait. A lost wake-up is a test that does not end. */
#include "pthread_common.h"

#define PRODUCERS 6
#define CONSUMERS 6
#define EACH 20000
#define PLACES 4

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_room = PTHREAD_COND_INITIALIZER, is_work = PTHREAD_COND_INITIALIZER;
static long ring[PLACES], taken_sum;
static unsigned head, tail;
static int left = PRODUCERS * EACH;

static void wait_for(pthread_cond_t *cond, unsigned turn) {
    struct timespec until;
    switch (turn % 4) {
    case 0:
        until = from_now(CLOCK_REALTIME, turn % 8 ? 600000 : 0);
        pthread_cond_timedwait(cond, &mutex, &until);
        break;
    case 1:
        until = from_now(CLOCK_MONOTONIC, 600000);
        pthread_cond_clockwait(cond, &mutex, CLOCK_MONOTONIC, &until);
        break;
    default: pthread_cond_wait(cond, &mutex);
    }
}

static void *produce(void *first) {
    for (long n = 0; n < EACH; n++) {
        pthread_mutex_lock(&mutex);
        while (head - tail == PLACES) wait_for(&is_room, (unsigned)n);
        ring[head++ % PLACES] = (long)(intptr_t)first + n;
        if (n % 3 == 0) {
            pthread_cond_signal(&is_work);
            pthread_mutex_unlock(&mutex);
        } else {
            pthread_mutex_unlock(&mutex);
            pthread_cond_signal(&is_work);
        }
    }
    return NULL;
}

static void *consume(void *unused) {
    for (unsigned n = 0;; n++) {
        pthread_mutex_lock(&mutex);
        while (head == tail && left > 0) wait_for(&is_work, n);
        if (left == 0) {
            pthread_mutex_unlock(&mutex);
            return unused;
        }
        taken_sum += ring[tail++ % PLACES];
        if (--left == 0) pthread_cond_broadcast(&is_work);
        pthread_cond_signal(&is_room);
        pthread_mutex_unlock(&mutex);
    }
}

/* Notifiers without the mutex: one of them stands between counting up and waking while the waiter comes again. */
#define ROUNDS 150000
static int is_over;

static void *notify(void *cond) {
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) pthread_cond_signal(cond);
    return NULL;
}

static void notified_without_the_mutex(void) {
    pthread_t notifiers[3];
    for (int n = 0; n < 3; n++) notifiers[n] = start(notify, &is_work);
    pthread_mutex_lock(&mutex);
    for (int n = 0; n < ROUNDS; n++) pthread_cond_wait(&is_work, &mutex);
    pthread_mutex_unlock(&mutex);
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    for (int n = 0; n < 3; n++) end_of(notifiers[n]);
}

int main(void) {
    pthread_t threads[PRODUCERS + CONSUMERS];
    long sum = 0;
    for (long n = 0; n < PRODUCERS; n++) {
        threads[n] = start(produce, (void *)(n * EACH));
        for (long k = 0; k < EACH; k++) sum += n * EACH + k;
    }
    for (int n = 0; n < CONSUMERS; n++) threads[PRODUCERS + n] = start(consume, NULL);
    for (int n = 0; n < PRODUCERS + CONSUMERS; n++) end_of(threads[n]);
    HOLDS(sum == taken_sum);
    notified_without_the_mutex();
    puts("ok");
    return 0;
}
