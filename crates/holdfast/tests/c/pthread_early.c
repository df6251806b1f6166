/* As a library: locks of each kind in a constructor, before or after that of the preloaded library. As a program: is linked with it, and
 * loads it a second time under another name. */
#include "pthread_common.h"
#include <dlfcn.h>

int early_count(void);

#ifdef EARLY_LIBRARY
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static int count;

static void *notify(void *unused) {
    pthread_mutex_lock(&mutex);
    count++;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mutex);
    return unused;
}

__attribute__((constructor(101))) static void begin(void) {
    pthread_mutexattr_t attributes;
    pthread_mutex_t inherits;
    pthread_t thread;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&inherits, &attributes);
    pthread_mutex_lock(&inherits);
    pthread_rwlock_rdlock(&rwlock);
    pthread_rwlock_unlock(&rwlock);
    pthread_mutex_lock(&mutex);
    thread = start(notify, NULL);
    while (count == 0) pthread_cond_wait(&cond, &mutex);
    pthread_mutex_unlock(&mutex);
    end_of(thread);
    pthread_mutex_unlock(&inherits);
    pthread_mutex_destroy(&inherits);
}

int early_count(void) { return count; }
#else
int main(int arguments, char **argument) {
    void *again;
    int (*count)(void);
    IS(early_count(), 1);
    IS(arguments, 2);
    again = dlopen(argument[1], RTLD_NOW | RTLD_LOCAL);
    HOLDS(again != NULL);
    *(void **)&count = dlsym(again, "early_count");
    IS(count(), 1);
    IS(dlclose(again), 0);
    puts("ok");
    return 0;
}
#endif
