/* mtx_* and cnd_* of C11. glibc's own call its mutexes past the names of pthread, so they are brought here. Destroying and initialising
 * other than below is the same. */
#include "preload.h"

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t) && sizeof(cnd_t) == sizeof(pthread_cond_t), "other types");

#pragma weak pthread_mutexattr_init
#pragma weak pthread_mutexattr_settype

static inline pthread_mutex_t *mutex_of(mtx_t *mutex) { return (pthread_mutex_t *)(void *)mutex; }
static inline pthread_cond_t *cond_of(cnd_t *cond) { return (pthread_cond_t *)(void *)cond; }

static int in_c11(int error) {
    switch (error) {
    case 0: return thrd_success;
    case ENOMEM: return thrd_nomem;
    case ETIMEDOUT: return thrd_timedout;
    case EBUSY: return thrd_busy;
    default: return thrd_error;
    }
}

HF_EXPORT int mtx_init(mtx_t *mutex, int type) {
    pthread_mutexattr_t recursive;
    if (!hf_is_glibc()) return hf_real()->mtx_init(mutex, type);
    if (!(type & mtx_recursive)) return in_c11(pthread_mutex_init(mutex_of(mutex), NULL));
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    return in_c11(pthread_mutex_init(mutex_of(mutex), &recursive));
}

HF_EXPORT void mtx_destroy(mtx_t *mutex) { pthread_mutex_destroy(mutex_of(mutex)); }

HF_EXPORT int mtx_lock(mtx_t *mutex) {
    return hf_is_glibc() ? in_c11(pthread_mutex_lock(mutex_of(mutex))) : hf_real()->mtx_lock(mutex);
}

HF_EXPORT int mtx_trylock(mtx_t *mutex) {
    return hf_is_glibc() ? in_c11(pthread_mutex_trylock(mutex_of(mutex))) : hf_real()->mtx_trylock(mutex);
}

HF_EXPORT int mtx_timedlock(mtx_t *mutex, const struct timespec *until) {
    return hf_is_glibc() ? in_c11(pthread_mutex_timedlock(mutex_of(mutex), until)) : hf_real()->mtx_timedlock(mutex, until);
}

HF_EXPORT int mtx_unlock(mtx_t *mutex) {
    return hf_is_glibc() ? in_c11(pthread_mutex_unlock(mutex_of(mutex))) : hf_real()->mtx_unlock(mutex);
}

HF_EXPORT int cnd_init(cnd_t *cond) {
    return hf_is_glibc() ? in_c11(pthread_cond_init(cond_of(cond), NULL)) : hf_real()->cnd_init(cond);
}

HF_EXPORT void cnd_destroy(cnd_t *cond) { pthread_cond_destroy(cond_of(cond)); }

HF_EXPORT int cnd_signal(cnd_t *cond) {
    return hf_is_glibc() ? in_c11(pthread_cond_signal(cond_of(cond))) : hf_real()->cnd_signal(cond);
}

HF_EXPORT int cnd_broadcast(cnd_t *cond) {
    return hf_is_glibc() ? in_c11(pthread_cond_broadcast(cond_of(cond))) : hf_real()->cnd_broadcast(cond);
}

HF_EXPORT int cnd_wait(cnd_t *cond, mtx_t *mutex) {
    return hf_is_glibc() ? in_c11(pthread_cond_wait(cond_of(cond), mutex_of(mutex))) : hf_real()->cnd_wait(cond, mutex);
}

HF_EXPORT int cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *until) {
    return hf_is_glibc() ? in_c11(pthread_cond_timedwait(cond_of(cond), mutex_of(mutex), until))
                         : hf_real()->cnd_timedwait(cond, mutex, until);
}
