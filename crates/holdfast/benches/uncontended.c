/* Lock and unlock without contention in C: holdfast.h beside pthread's normal mutex, 101 interleaved samples each.
 *
 * cc -O2 -pthread -I crates/holdfast/include crates/holdfast/benches/uncontended.c -o uncontended && ./uncontended */
#include "holdfast.h"

#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 101, OPERATIONS = 200000 };

static holdfast_mutex_t ours;
static pthread_mutex_t theirs = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long count;

static double now_ns(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double time_ours(void) {
    double begin = now_ns();
    for (int n = 0; n < OPERATIONS; n++) {
        holdfast_mutex_lock(&ours);
        count = (unsigned long)n;
        holdfast_mutex_unlock(&ours);
    }
    return (now_ns() - begin) / OPERATIONS;
}

static double time_theirs(void) {
    double begin = now_ns();
    for (int n = 0; n < OPERATIONS; n++) {
        pthread_mutex_lock(&theirs);
        count = (unsigned long)n;
        pthread_mutex_unlock(&theirs);
    }
    return (now_ns() - begin) / OPERATIONS;
}

static int order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *sleeps(void *none) {
    pause();
    return none;
}

int main(void) {
    static double mine[SAMPLES], pthreads[SAMPLES], ratios[SAMPLES];
    pthread_t other;
    /* With one thread glibc leaves the atomic operations out. */
    if (pthread_create(&other, NULL, sleeps, NULL) != 0) return 1;
    for (int n = 0; n < SAMPLES; n++) {
        mine[n] = time_ours();
        pthreads[n] = time_theirs();
        ratios[n] = mine[n] / pthreads[n];
    }
    qsort(mine, SAMPLES, sizeof *mine, order);
    qsort(pthreads, SAMPLES, sizeof *pthreads, order);
    qsort(ratios, SAMPLES, sizeof *ratios, order);
    printf("holdfast %.2f ns, pthread %.2f ns, ratio %.3f (medians)\n", mine[SAMPLES / 2], pthreads[SAMPLES / 2],
           ratios[SAMPLES / 2]);
    return 0;
}
