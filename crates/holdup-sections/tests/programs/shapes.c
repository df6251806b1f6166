// Five shapes of lock, taken again and again. The tracer reads `words`; see tests/matrix.rs.
// With -DPART=1 the functions that take and give back, with -DPART=2 what calls them, without both in one file.

#include <stdint.h>

#ifdef __x86_64__
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() __asm__ volatile("isb" ::: "memory")
#endif

#ifdef PART
#define LOCK extern
#else
#define LOCK static inline
#endif

enum { BUSY = 1u << 20 };

LOCK void take_exchanged(uint32_t *lock);
LOCK void take_read_first(uint32_t *lock);
LOCK void take_compared(uint32_t *lock);
LOCK void take_bit(uint32_t *lock);
LOCK void take_ticket(uint32_t *lock);
LOCK void give(uint32_t *lock);
LOCK void give_bit(uint32_t *lock);
LOCK void give_ticket(uint32_t *lock);

#if PART != 2
LOCK void take_exchanged(uint32_t *lock)
{
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
        PAUSE();
}

LOCK void take_read_first(uint32_t *lock)
{
    do {
        while (__atomic_load_n(lock, __ATOMIC_RELAXED))
            PAUSE();
    } while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE));
}

LOCK void take_compared(uint32_t *lock)
{
    uint32_t none = 0;
    while (!__atomic_compare_exchange_n(lock, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        none = 0;
        PAUSE();
    }
}

LOCK void take_bit(uint32_t *lock)
{
    while (__atomic_fetch_or(lock, BUSY, __ATOMIC_ACQUIRE) & BUSY)
        PAUSE();
}

LOCK void take_ticket(uint32_t *lock)
{
    uint32_t mine = __atomic_fetch_add(&lock[0], 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&lock[1], __ATOMIC_ACQUIRE) != mine)
        PAUSE();
}

LOCK void give(uint32_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

LOCK void give_bit(uint32_t *lock)
{
    __atomic_fetch_and(lock, ~BUSY, __ATOMIC_RELEASE);
}

LOCK void give_ticket(uint32_t *lock)
{
    __atomic_store_n(&lock[1], __atomic_load_n(&lock[1], __ATOMIC_RELAXED) + 1, __ATOMIC_RELEASE);
}
#endif

#if PART != 1
static struct {
    uint32_t exchanged, read_first, compared, bit, ticket[2];
    uint64_t counts[4];
} shared;

// Whole-program optimisation leaves out what nothing reads.
__attribute__((used)) struct {
    void *at;
    uint64_t bits;
} words[] = {
    {&shared.exchanged, 0xffffffff}, {&shared.read_first, 0xffffffff}, {&shared.compared, 0xffffffff},
    {&shared.bit, BUSY},             {&shared.ticket, 0},              {0, 0},
};

static void __attribute__((noinline)) with_exchanged(int which)
{
    take_exchanged(&shared.exchanged);
    for (int i = 0; i < (which & 3); i++)
        shared.counts[i] += (uint64_t)which;
    give(&shared.exchanged);
}

static void __attribute__((noinline)) with_read_first(int which)
{
    take_read_first(&shared.read_first);
    if (which & 1)
        shared.counts[1] ^= (uint64_t)which;
    else
        shared.counts[2]--;
    give(&shared.read_first);
}

static void __attribute__((noinline)) with_compared(int which)
{
    take_compared(&shared.compared);
    shared.counts[which & 3] += 3;
    give(&shared.compared);
}

static void __attribute__((noinline)) with_bit(int which)
{
    take_bit(&shared.bit);
    for (int i = 0; i < 3; i++)
        shared.counts[i] -= (uint64_t)(which + i);
    give_bit(&shared.bit);
}

static void __attribute__((noinline)) with_ticket(int which)
{
    take_ticket(shared.ticket);
    shared.counts[which & 1] *= 5;
    shared.counts[2]++;
    give_ticket(shared.ticket);
}

int main(int count, char **arguments)
{
    (void)arguments;
    for (int i = 0; i < 1000000 * count; i++) {
        with_exchanged(i);
        with_read_first(i);
        with_compared(i);
        with_bit(i);
        with_ticket(i);
    }
    return (int)shared.counts[0] & 1;
}
#endif
