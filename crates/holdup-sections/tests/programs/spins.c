// Locks that are waited for with the instruction for that: what is found of them does not hang on symbols.

#include <stdint.h>

#ifdef __x86_64__
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() __asm__ volatile("isb" ::: "memory")
#endif

static struct {
    uint32_t byte_lock, word_lock, bits, other;
    uint64_t counts[4];
} shared;

void __attribute__((noipa)) take(uint32_t *lock)
{
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
        PAUSE();
}

static void __attribute__((noinline)) in_a_word(int which)
{
    take(&shared.word_lock);
    shared.counts[which & 3]++;
    __atomic_store_n(&shared.word_lock, 0, __ATOMIC_RELEASE);
}

static void __attribute__((noinline)) compared(int which)
{
    uint32_t none = 0;
    while (!__atomic_compare_exchange_n(&shared.byte_lock, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        none = 0;
        PAUSE();
    }
    shared.counts[which & 3] += which;
    __atomic_store_n(&shared.byte_lock, 0, __ATOMIC_RELEASE);
}

static void __attribute__((noinline)) one_bit(int which)
{
    while (__atomic_fetch_or(&shared.bits, 1u << 20, __ATOMIC_ACQUIRE) & 1u << 20)
        PAUSE();
    if (which & 1)
        shared.counts[0] ^= which;
    else
        shared.counts[1]--;
    __atomic_fetch_and(&shared.bits, ~(1u << 20), __ATOMIC_RELEASE);
}

int main(int count, char **words)
{
    (void)words;
    for (int i = 0; i < 100 * count; i++) {
        in_a_word(i);
        compared(i);
        one_bit(i);
    }
    return (int)shared.counts[0] & 1;
}
