#include "program.h"
#include <alloca.h>

volatile int turns = 3;

static __attribute__((noinline)) void innermost(void) { SAMPLE(); __asm__ volatile(""); }

static inline __attribute__((always_inline)) void put_inline(void) { innermost(); turns += 0; }

/* Found by the dynamic linker, so also named in a stripped program. */
__attribute__((noinline)) void recurse(int left) {
    if (left > 0)
        recurse(left - 1);
    else
        put_inline();
    __asm__ volatile("" ::: "memory");
}

/* Its stack is aligned anew, so that its caller is found by an expression only. */
__attribute__((noinline)) void aligned(int size) {
    _Alignas(64) volatile char room[64];
    volatile char *more = alloca(size);
    room[0] = more[0] = 1;
    recurse(0);
    room[1] = more[0];
}

static void *handler_returns_to;

static void handler(int number) {
    handler_returns_to = __builtin_extract_return_addr(__builtin_return_address(0));
    innermost();
    __asm__ volatile("" : : "r"(number) : "memory");
}

__attribute__((noinline)) void interrupted(void) {
    kill(getpid(), SIGUSR1);
    __asm__ volatile("" ::: "memory");
}

int main(void) {
    find_stack();
    recurse(turns);
    aligned(turns * 10);
    signal(SIGUSR1, handler);
    interrupted();
    end();
#ifdef __aarch64__
    /* An emulator gives no name to the page that it makes for this. */
    unsigned long page = (unsigned long)handler_returns_to & ~4095ul;
    printf("%lx-%lx r-xp 00000000 00:00 0 /return-of-signals\n", page, page + 4096);
#endif
    return 0;
}
