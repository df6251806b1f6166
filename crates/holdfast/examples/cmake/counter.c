/* Four threads count under one lock, each asking not to be preempted while it holds it. */
#include <holdfast.h>

#include <stdio.h>

static holdfast_mutex_t lock = HOLDFAST_MUTEX_INITIALIZER;
static unsigned long count;

static void *work(void *none) {
    for (int n = 0; n < 100000; n++) {
        holdfast_hold_t hold = holdfast_hold();
        holdfast_mutex_lock(&lock);
        count++;
        holdfast_mutex_unlock(&lock);
        holdfast_hold_end(hold);
    }
    return none;
}

int main(void) {
    pthread_t threads[4];
    for (int n = 0; n < 4; n++)
        if (pthread_create(&threads[n], NULL, work, NULL) != 0) return 1;
    for (int n = 0; n < 4; n++) pthread_join(threads[n], NULL);
    printf("%lu, time slice extension: %s\n", count, holdfast_hold_status() == HOLDFAST_HOLD_WORKS ? "works" : "missing");
    return count != 400000;
}
