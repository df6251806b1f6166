/* What this library did in a process, as text in a file of the folder that the variable HOLDFAST_REPORT names.
 *
 * The file is made when the library is loaded. A number is written when it is a power of two, and all at the exit of the program: after
 * SIGKILL or _exit they are at least a half of what is true. (Counted up in a mapping of the file they stopped a server: a page that is on
 * its way to the disk cannot be written.) A forked child makes its own file, from zero. Without the variable nothing is counted. Where the
 * folder is missing or cannot be written, no report is made: a program must not fail by it. */
#include "preload.h"
#include <fcntl.h>
#include <sys/stat.h>

#define DIGITS 12

static const char *const names[] = {
#define HF_NAME(name) #name,
    HF_COUNTS(HF_NAME)
#undef HF_NAME
};
#define COUNTS (sizeof(names) / sizeof(names[0]))

static int is_reporting;
static char path[1024];
/* The open file, high up where programs do not count on numbers, and which file it is: a program may close it and open another. */
#define HIGH_FILE 900
static int kept = -1;
static dev_t kept_device;
static ino_t kept_inode;
static uint32_t counts[COUNTS];
/* Where the digits of a count begin in the file. */
static long places[COUNTS];

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
        char *end = path + sizeof(path) - 1, *to = append(path, folder, end);
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

static int is_still_ours(void) {
    struct stat about;
    return kept >= 0 && syscall(SYS_fstat, kept, &about) == 0 && about.st_dev == kept_device && about.st_ino == kept_inode;
}

/* A server that gave up its privileges can no longer open the file that it made as root; one that closed all files still has the path. */
static void write_count(uint32_t what, uint32_t count) {
    char digits[DIGITS];
    append_number(digits, count, DIGITS, digits + DIGITS);
    if (is_still_ours()) {
        syscall(SYS_pwrite64, kept, digits, DIGITS, places[what]);
    } else {
        long file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
        if (file < 0) return;
        syscall(SYS_pwrite64, file, digits, DIGITS, places[what]);
        syscall(SYS_close, file);
    }
}

/* Keeps the file open, from HIGH_FILE on: programs put files at low numbers with dup2, or pass them on by number. */
static void keep(int file) {
    struct stat about;
    kept = (int)syscall(SYS_fcntl, file, F_DUPFD_CLOEXEC, HIGH_FILE);
    if (kept < 0 || syscall(SYS_fstat, kept, &about) != 0) return;
    kept_device = about.st_dev;
    kept_inode = about.st_ino;
}

void hf_report_begin(void) {
    const char *folder = getenv("HOLDFAST_REPORT");
    char text[4096], *end = text + sizeof(text), *to;
    int before = errno, file;
    is_reporting = 0;
    if (is_still_ours()) syscall(SYS_close, kept); /* the parent's, in a forked child */
    kept = -1;
    file = folder && *folder ? create(folder) : -1;
    if (file >= 0) {
        to = write_begin(text, end);
        for (size_t n = 0; n < COUNTS; n++) {
            to = append(append(to, names[n], end), " ", end);
            places[n] = to - text;
            counts[n] = 0;
            to = append(append_number(to, 0, DIGITS, end), "\n", end);
        }
        if (syscall(SYS_write, file, text, to - text) == to - text) __atomic_store_n(&is_reporting, 1, __ATOMIC_RELEASE);
        keep(file);
        syscall(SYS_close, file);
    }
    errno = before;
}

void hf_count(enum hf_count what) {
    int before = errno;
    uint32_t count;
    if (!__atomic_load_n(&is_reporting, __ATOMIC_ACQUIRE)) return;
    count = __atomic_add_fetch(&counts[what], 1, __ATOMIC_RELAXED);
    if ((count & (count - 1)) == 0) write_count(what, count);
    errno = before;
}

__attribute__((destructor)) static void end(void) {
    for (uint32_t n = 0; is_reporting && n < COUNTS; n++)
        if (counts[n]) write_count(n, counts[n]);
}
