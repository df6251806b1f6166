/*
 * Many processes lock and unlock one wait list with the functions of the lwlock.c that is compiled in, and count under it.
 *
 *   cc -O2 -w -D_GNU_SOURCE -fno-strict-aliasing -fwrapv -I$T/src/backend/storage/lmgr -I$T/src/include wait-list.c -o wait-list \
 *      -Wl,--unresolved-symbols=ignore-all $T/src/backend/storage/lmgr/s_lock.o $T/src/common/libpgcommon_srv.a \
 *      $T/src/port/libpgport_srv.a -lm -no-pie          ($T: a built tree of PostgreSQL 17, 18 or 19)
 *   ./wait-list PROCESSES SECONDS HOLD_NS MODE
 *
 * MODE is a sum: 1 all on one CPU, 2 a signal each millisecond, 4 one of 512 holders sleeps for 3 ms, 8 holders of the LWLock come and go.
 * Exits with 0 if no count is lost and all processes end.
 */
#include "lwlock.c"
#include "common/pg_prng.h"
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#undef printf

#define MOST 512

struct shared {
    LWLock lock;
    char pad[112];
    volatile uint64 first;
    char pad2[120];
    volatile uint64 second;
    volatile int stop;
    struct {
        uint64 turns, signals;
        double longest;
    } of[MOST];
};

static uint32 wait_event;
uint32 *my_wait_event_info = &wait_event;
static volatile sig_atomic_t signals;

/* elog(): the waiter reports a stuck list. */
bool errstart(int level, const char *domain) {
    printf("elog of level %d\n", level);
    fflush(stdout);
    _exit(9);
}
bool errstart_cold(int level, const char *domain) { return errstart(level, domain); }

static void on_signal(int number) { signals++; }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void come_and_go(LWLock *lock) {
    pg_atomic_fetch_add_u32(&lock->state, 1);
    pg_atomic_fetch_sub_u32(&lock->state, 1);
}

static void work(struct shared *s, int me, int hold_ns, int mode) {
    uint32 random = me * 2654435761u + 1;
    pg_prng_seed(&pg_global_prng_state, me + 1);
    if (mode & 1) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(0, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    if (mode & 2) {
        struct sigaction action = {.sa_handler = on_signal};
        struct itimerval each = {{0, 1000}, {0, 1000}};
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &each, NULL);
    }
    while (!s->stop) {
        double begin = now(), waited, end;
        LWLockWaitListLock(&s->lock);
        end = now();
        waited = end - begin;
        if (waited > s->of[me].longest) s->of[me].longest = waited;
        if (s->first != s->second) abort();
        s->first++;
        while (now() < end + hold_ns * 1e-9) {
        }
        random = random * 1664525u + 1013904223u;
        if ((mode & 4) && (random >> 20) % 512 == 0) usleep(3000);
        if (mode & 8) come_and_go(&s->lock);
        s->second++;
        LWLockWaitListUnlock(&s->lock);
        s->of[me].turns++;
        for (int n = random >> 24; n > 0; n--) SPIN_DELAY();
        if (mode & 8) come_and_go(&s->lock);
    }
    s->of[me].signals = signals;
    _exit(0);
}

int main(int count, char **of) {
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int processes = count == 5 ? atoi(of[1]) : 0, left = processes, status;
    uint64 turns = 0, received = 0, least = UINT64_MAX, most = 0;
    double longest = 0, stopped;
    bool is_right;
    if (processes < 1 || processes > MOST) {
        printf("usage: wait-list PROCESSES SECONDS HOLD_NS MODE, at most %d processes\n", MOST);
        return 2;
    }
    s->lock.tranche = 77;
    for (int n = 0; n < processes; n++)
        if (fork() == 0) work(s, n, atoi(of[3]), atoi(of[4]));
    usleep(atof(of[2]) * 1e6);
    s->stop = 1;
    stopped = now();
    while (left > 0) {
        if (waitpid(-1, &status, WNOHANG) > 0) {
            left--;
            if (status != 0) {
                printf("a process ended with status %x\n", status);
                return 1;
            }
        } else if (now() - stopped > 20) {
            printf("%d processes hang, state %x, word %x\n", left, pg_atomic_read_u32(&s->lock.state), *(uint32 *)&s->lock);
            kill(0, SIGKILL);
        } else {
            usleep(1000);
        }
    }
    for (int n = 0; n < processes; n++) {
        turns += s->of[n].turns;
        received += s->of[n].signals;
        longest = Max(longest, s->of[n].longest);
        least = Min(least, s->of[n].turns);
        most = Max(most, s->of[n].turns);
    }
    is_right = s->first == turns && s->second == turns && !(pg_atomic_read_u32(&s->lock.state) & LW_FLAG_LOCKED) && s->lock.tranche == 77;
    printf("%s: %d processes, %llu turns (%llu to %llu for a process), longest wait %.1f ms, %llu signals\n", is_right ? "ok" : "WRONG", processes,
           (unsigned long long)turns, (unsigned long long)least, (unsigned long long)most, longest * 1e3, (unsigned long long)received);
    return is_right ? 0 : 1;
}
