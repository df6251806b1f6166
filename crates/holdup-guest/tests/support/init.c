// The first process of a test's guest: does one thing, named by holdup.try= on the kernel's command line.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

static char line[4096];

static const char *word(const char *key) {
    char *at = strstr(line, key);
    if (!at) return "";
    static char value[64];
    snprintf(value, sizeof value, "%.*s", (int)strcspn(at + strlen(key), " \n"), at + strlen(key));
    return value;
}

static void write_file(int to, const char *path) {
    char bytes[4096];
    int from = open(path, O_RDONLY);
    ssize_t count = read(from, bytes, sizeof bytes);
    if (count > 0 && write(to, bytes, count) != count) _exit(7);
    close(from);
}

int main(void) {
    mkdir("/dev", 0755);
    mkdir("/proc", 0755);
    mount("dev", "/dev", "devtmpfs", 0, 0);
    mount("proc", "/proc", "proc", 0, 0);
    int file = open("/proc/cmdline", O_RDONLY);
    if (read(file, line, sizeof line - 1) < 0) return 3;
    char path[80];
    snprintf(path, sizeof path, "/dev/%s", word("holdup.channel="));
    // The machine has one virtio port, which appears some milliseconds after the kernel has found its bus.
    int is_port = !strncmp(path, "/dev/port:", 10);
    if (is_port) strcpy(path, "/dev/vport0p1");
    for (int tries = 0; is_port && access(path, F_OK) && tries < 1000; tries++) usleep(10000);
    int channel = open(path, O_RDWR | O_NOCTTY);
    if (channel < 0) return 4;
    struct termios raw;
    tcgetattr(channel, &raw);
    cfmakeraw(&raw);
    tcsetattr(channel, TCSANOW, &raw);
    write_file(channel, "/hello");
    tcdrain(channel);
    const char *what = word("holdup.try=");
    if (!strcmp(what, "exit")) return 1;
    if (!strcmp(what, "off")) reboot(RB_POWER_OFF);
    if (!strcmp(what, "panic")) {
        int trigger = open("/proc/sysrq-trigger", O_WRONLY);
        if (write(trigger, "c", 1) != 1) return 5;
    }
    while (!strcmp(what, "memory")) {
        char *memory = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return 6;
        memset(memory, 1, 1 << 20);
    }
    while (!strcmp(what, "echo")) {
        char bytes[4096];
        ssize_t count = read(channel, bytes, sizeof bytes);
        for (ssize_t done = 0, wrote; done < count; done += wrote) {
            wrote = write(channel, bytes + done, count - done);
            if (wrote <= 0) return 8;
        }
    }
    for (;;) pause();
}
