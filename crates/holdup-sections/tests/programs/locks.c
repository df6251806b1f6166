// Locks of the kinds that the analysis knows, taken again and again. The tracer reads `words` to know which bits are the
// locks, and now and then sets one itself, as another task would.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct pool {
    uint64_t before;
    uint8_t lock;
    int32_t first;
    uint32_t users;
    int32_t next[64];
};

struct page {
    uint32_t tag[6];
    uint32_t state;
    uint32_t other;
};

enum { LOCKED = 1u << 22, LISTED = 1u << 28 };

static struct pool the_pool;
static struct pool *volatile pool_at = &the_pool;
static struct page pages[4];
static uint32_t list_state;
static int32_t swapped;
static uint64_t work;

struct word {
    void *at;
    uint64_t bits;
};

struct word words[] = {
    {&the_pool.lock, 0xff},      {&pages[0].state, LOCKED}, {&pages[1].state, LOCKED},  {&pages[2].state, LOCKED},
    {&pages[3].state, LOCKED},   {&list_state, LISTED},     {&swapped, 0xffffffffu},    {0, 0},
};

__attribute__((noinline)) static uint64_t busy(uint64_t from, int turns)
{
    for (int i = 0; i < turns; i++)
        from = from * 6364136223846793005u + (uint64_t)i;
    return from;
}

__attribute__((noinline)) static void pause_a_while(int *spins)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#else
    __asm__ volatile("isb" ::: "memory");
#endif
    if (++*spins % 50 == 0) {
        struct timespec little = {0, 1000};
        nanosleep(&little, NULL);
    }
}

__attribute__((noinline)) int slow_lock(volatile uint8_t *lock)
{
    int spins = 0;
    while (__atomic_load_n(lock, __ATOMIC_RELAXED) || __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
        pause_a_while(&spins);
    return spins;
}

static inline void take(volatile uint8_t *lock)
{
    if (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
        slow_lock(lock);
}

static inline void give(volatile uint8_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

// A free list below a spin lock, reached through a pointer that is loaded anew.
__attribute__((noinline)) int pop(int *steal)
{
    int got = -1;
    take(&pool_at->lock);
    if (pool_at->first >= 0) {
        got = pool_at->first;
        pool_at->first = pool_at->next[got];
        pool_at->next[got] = -2;
        if (got % 3 == 0)
            *steal += (int)busy(work, 5);
    } else if (pool_at->users > 3) {
        give(&pool_at->lock);
        return -2;
    }
    pool_at->users++;
    give(&pool_at->lock);
    return got;
}

__attribute__((noinline)) void push(struct pool *pool, int which)
{
    take(&pool->lock);
    if (pool->next[which] == -2) {
        pool->next[which] = pool->first;
        pool->first = which;
        pool->users--;
    }
    give(&pool->lock);
}

__attribute__((noinline)) int try_count(struct pool *pool)
{
    if (__atomic_exchange_n(&pool->lock, 1, __ATOMIC_ACQUIRE))
        return 0;
    pool->before++;
    give(&pool->lock);
    return 1;
}

// A flag in a word with other bits, set by a compare-and-swap loop; the lock is left to the caller.
__attribute__((noinline)) uint32_t lock_page(struct page *page)
{
    int spins = 0;
    for (;;) {
        uint32_t old = __atomic_load_n(&page->state, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(&page->state, &old, old | LOCKED, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            ;
        if (!(old & LOCKED))
            return old | LOCKED;
        pause_a_while(&spins);
    }
}

static inline void unlock_page(struct page *page, uint32_t state)
{
    __atomic_store_n(&page->state, state & ~LOCKED, __ATOMIC_RELEASE);
}

// Gives its caller's lock back.
__attribute__((noinline)) static void pin_locked(struct page *page, uint32_t state)
{
    unlock_page(page, state + 1);
    work = busy(work, 3);
}

__attribute__((noinline)) int use_page(int which)
{
    struct page *page = &pages[which & 3];
    uint32_t state = lock_page(page);
    if (page->tag[0] > 1000) {
        pin_locked(page, state);
        page->tag[0] = 0;
        return 1;
    }
    page->tag[0] += (uint32_t)busy(which, 4) & 0xff;
    unlock_page(page, state);
    return 0;
}

// A flag that is set by one instruction.
__attribute__((noinline)) static void lock_list(void)
{
    int spins = 0;
    while (__atomic_fetch_or(&list_state, LISTED, __ATOMIC_ACQUIRE) & LISTED)
        while (__atomic_load_n(&list_state, __ATOMIC_RELAXED) & LISTED)
            pause_a_while(&spins);
}

__attribute__((noinline)) void use_list(int which)
{
    lock_list();
    if (which & 1) {
        work += busy(which, 3);
        __atomic_fetch_and(&list_state, ~LISTED, __ATOMIC_RELEASE);
        return;
    }
    uint32_t old = __atomic_load_n(&list_state, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&list_state, &old, (old + 1) & ~LISTED, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

__attribute__((noinline)) void swap_lock(int which)
{
    int spins = 0;
    for (;;) {
        int32_t free = 0;
        if (__atomic_compare_exchange_n(&swapped, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            break;
        pause_a_while(&spins);
    }
    work ^= busy(which, 2);
    __atomic_store_n(&swapped, 0, __ATOMIC_RELEASE);
}

int main(void)
{
    int steal = 0;
    for (int i = 0; i < 64; i++)
        the_pool.next[i] = i == 63 ? -1 : i + 1;
    for (int i = 0;; i++) {
        int got = pop(&steal);
        use_page(i);
        use_list(i);
        swap_lock(i);
        try_count(pool_at);
        if (got >= 0 && i % 4 != 0)
            push(pool_at, got);
    }
    return (int)work + steal;
}
