/* What this library did in a process, as text in a file of the folder that the variable HOLDFAST_REPORT names.
 *
 * The file is made when the library is loaded and mapped, so that its numbers are true at each moment, whatever ends the process: they
 * are decimal digits in the mapping, counted up in place. A forked child makes its own, from zero. Without the variable nothing is counted.
 * Where the folder is missing or cannot be written, no report is made: a program must not fail by it. */
#include "preload.h"
#include <fcntl.h>
#include <sys/mman.h>

#define DIGITS 12
#define PAGE 4096

static const char *const names[] = {
#define HF_NAME(name) #name,
    HF_COUNTS(HF_NAME)
#undef HF_NAME
};
#define COUNTS (sizeof(names) / sizeof(names[0]))

static char *page;
static char *digits[COUNTS];
static holdfast_mutex_t counting;

extern char *getenv(const char *);

static char *append(char *to, const char *text, const char *end) {
    while (*text && to < end) *to++ = *text++;
    return to;
}

static char *append_number(char *to, unsigned long number, int width, const char *end) {
    char text[24];
    int at = 23;
    text[at] = 0;
    do {
        text[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (at > 0 && (number || 23 - at < width));
    return append(to, text + at, end);
}

/* A name that no report has: a program that is executed keeps the pid of the one before. */
static int create(const char *folder) {
    unsigned long pid = (unsigned long)syscall(SYS_getpid);
    for (unsigned long n = 0; n < 1000; n++) {
        char path[1024], *end = path + sizeof(path) - 1, *to = append(path, folder, end);
        long file;
        to = append(append_number(append(to, "/holdfast.", end), pid, 1, end), ".", end);
        *append_number(to, n, 1, end) = 0;
        file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (file >= 0) return (int)file;
        if (errno != EEXIST) return -1;
    }
    return -1;
}

static char *write_begin(char *to, const char *end) {
    long length;
    to = append(append_number(append(to, "holdfast 1\npid ", end), (unsigned long)syscall(SYS_getpid), 1, end), "\nprogram ", end);
    length = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", to, 1024);
    if (length > 0) to += length;
    return append(to, hf_is_glibc() ? "\nc_library glibc\n" : "\nc_library unknown\n", end);
}

void hf_report_begin(void) {
    const char *folder = getenv("HOLDFAST_REPORT");
    char *to, *mapped = (char *)MAP_FAILED, *place[COUNTS];
    int before = errno, file;
    if (page) syscall(SYS_munmap, page, PAGE);
    page = NULL;
    counting.word = 0;
    file = folder && *folder ? create(folder) : -1;
    if (file < 0) goto out;
    if (syscall(SYS_ftruncate, file, PAGE) == 0)
        mapped = (char *)syscall(SYS_mmap, NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == (char *)MAP_FAILED) goto close;
    to = write_begin(mapped, mapped + PAGE);
    for (size_t n = 0; n < COUNTS; n++) {
        to = append(append(to, names[n], mapped + PAGE), " ", mapped + PAGE);
        place[n] = to;
        to = append(append_number(to, 0, DIGITS, mapped + PAGE), "\n", mapped + PAGE);
    }
    syscall(SYS_ftruncate, file, to - mapped);
    for (size_t n = 0; n < COUNTS; n++) digits[n] = place[n];
    __atomic_store_n(&page, mapped, __ATOMIC_RELEASE);
close:
    syscall(SYS_close, file);
out:
    errno = before;
}

void hf_count(enum hf_count what) {
    if (!__atomic_load_n(&page, __ATOMIC_ACQUIRE)) return;
    holdfast_mutex_lock(&counting);
    for (char *digit = digits[what] + DIGITS - 1; digit >= digits[what]; digit--) {
        *digit = *digit == '9' ? '0' : (char)(*digit + 1);
        if (*digit != '0') break;
    }
    holdfast_mutex_unlock(&counting);
}
