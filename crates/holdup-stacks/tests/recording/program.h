/* Writes what a sampler sees of the caller: registers and stack, in front of the text of /proc/self/maps. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned long stack_end;

static void find_stack(void) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (strstr(line, "[stack]") && sscanf(line, "%lx-%lx", &start, &end) == 2)
            stack_end = end;
    }
    fclose(maps);
}

static void write_all(const void *from, size_t length) {
    if (fwrite(from, 1, length, stdout) != length)
        abort();
}

/* Instruction pointer, stack pointer, frame pointer, and the register of the return address where there is one. */
#ifdef __aarch64__
#define REGISTERS(at)                                                                                                  \
    __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29\n\tmov %3, x30"                                         \
                     : "=&r"(at[0]), "=&r"(at[1]), "=&r"(at[2]), "=&r"(at[3]))
#else
#define REGISTERS(at)                                                                                                  \
    __asm__ volatile("leaq 0(%%rip), %0\n\tmovq %%rsp, %1\n\tmovq %%rbp, %2\n\tmovq $0, %3"                            \
                     : "=&r"(at[0]), "=&r"(at[1]), "=&r"(at[2]), "=&r"(at[3]))
#endif

/* The registers are those of the function in which this stands. */
#define SAMPLE()                                                                                                       \
    do {                                                                                                               \
        unsigned long at[5];                                                                                           \
        REGISTERS(at);                                                                                                 \
        at[4] = stack_end - at[1];                                                                                     \
        write_all(at, sizeof at);                                                                                      \
        write_all((void *)at[1], at[4]);                                                                               \
    } while (0)

static void end(void) {
    unsigned long none[5] = {0};
    char buffer[4096];
    ssize_t got;
    int maps = open("/proc/self/maps", O_RDONLY);
    write_all(none, sizeof none);
    while ((got = read(maps, buffer, sizeof buffer)) > 0)
        write_all(buffer, got);
    fflush(stdout);
}
