/* What the programs of tests/preload.rs have in common. Each prints what it saw and ends with 1 where that is not what POSIX and glibc
 * promise, without the library and with it. */
#ifndef PTHREAD_COMMON_H
#define PTHREAD_COMMON_H

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* What a call returned, and what it must return. */
#define IS(call, expected)                                                                   \
    do {                                                                                     \
        int is_ = (call), must_ = (expected);                                                \
        printf("%s = %d\n", #call, is_);                                                     \
        if (is_ != must_) {                                                                  \
            fprintf(stderr, "%s:%d: %s is %d, not %d\n", __FILE__, __LINE__, #call, is_, must_); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

#define HOLDS(condition) IS(!!(condition), 1)

static inline struct timespec from_now(clockid_t clock, long ms) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_sec += ms / 1000;
    time.tv_nsec += ms % 1000 * 1000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

static inline void sleep_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static inline pthread_t start(void *(*work)(void *), void *with) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, with) != 0) abort();
    return thread;
}

static inline void *end_of(pthread_t thread) {
    void *result;
    if (pthread_join(thread, &result) != 0) abort();
    return result;
}

/* Runs a function in a thread and returns its number. */
static inline int in_thread(void *(*work)(void *), void *with) { return (int)(intptr_t)end_of(start(work, with)); }

static inline void *shared_memory(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    return memory;
}

/* The exit code of a child, or 128 and its signal. */
static inline int end_of_child(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child) abort();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif
