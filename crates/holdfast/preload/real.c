/* The C library behind this one: which it is, its own functions, and the id of the thread. */
#include "preload.h"
#include <dlfcn.h>

#pragma weak dlsym
#pragma weak dlvsym
#pragma weak gnu_get_libc_version
#pragma weak pthread_condattr_init
#pragma weak pthread_condattr_setpshared
#pragma weak __register_atfork
extern const char *gnu_get_libc_version(void);
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);

static struct hf_real real;
static int is_known;
static uint32_t cond_flags_at;

/* In place of a function that the C library lacks, such as pthread_cond_clockwait before glibc 2.30. */
static int is_missing(void) { return ENOTSUP; }

/* glibc writes nothing but the flags into a fresh condition, so a process-shared one says where they are. */
static uint32_t find_cond_flags(void) {
    union {
        pthread_cond_t cond;
        uint32_t words[12];
    } fresh = {.words = {0}};
    pthread_condattr_t shared;
    uint32_t at = 0;
    int is_made = pthread_condattr_init && pthread_condattr_setpshared && pthread_condattr_init(&shared) == 0 &&
                  pthread_condattr_setpshared(&shared, PTHREAD_PROCESS_SHARED) == 0 &&
                  real.pthread_cond_init(&fresh.cond, &shared) == 0;
    for (uint32_t n = 0; is_made && n < 12; n++)
        if (fresh.words[n] == 1) at = at ? 12 : n;
    /* Where none can be made, the program makes none either. */
    return at >= 4 && at < 12 ? at : 9;
}

/* Before glibc 2.36 `dlsym` finds the oldest version of what comes next; conditions of that one know no process-shared ones. */
static void *next(const char *name) {
    void *found = dlvsym && name[8] == 'c' ? dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2") : NULL;
    if (!found && dlsym) found = dlsym(RTLD_NEXT, name);
    return found ? found : (void *)is_missing;
}

__attribute__((noinline)) static void find(void) {
    int before = errno;
#define HF_FIND(name, parameters) __atomic_store_n((void **)&real.name, next(#name), __ATOMIC_RELAXED);
    HF_REAL_FUNCTIONS(HF_FIND)
#undef HF_FIND
    __atomic_store_n(&cond_flags_at, find_cond_flags(), __ATOMIC_RELAXED);
    __atomic_store_n(&is_known, 1, __ATOMIC_RELEASE);
    errno = before;
}

const struct hf_real *hf_real(void) {
    if (!__atomic_load_n(&is_known, __ATOMIC_ACQUIRE)) find();
    return &real;
}

uint32_t hf_cond_flags_at(void) {
    if (!__atomic_load_n(&is_known, __ATOMIC_ACQUIRE)) find();
    return cond_flags_at;
}

int hf_is_glibc(void) { return gnu_get_libc_version != NULL; }

__thread int hf_thread_id __attribute__((tls_model("initial-exec")));

int hf_find_thread_id(void) {
    hf_thread_id = (int)syscall(SYS_gettid);
    return hf_thread_id;
}

/* The child's thread has another id, and the child its own report. */
static void in_the_child(void) {
    hf_find_thread_id();
    hf_report_begin();
}

__attribute__((constructor)) static void begin(void) {
    hf_real();
    hf_find_thread_id();
    if (__register_atfork) __register_atfork(NULL, NULL, in_the_child, NULL);
    hf_report_begin();
}
