/* Moves the wall clock of one process, while it runs, by the seconds that stand in a file: what lasts five minutes can
 * then be seen to end. Preloaded; `GUARD_CLOCK` names the file, which holds one 64-bit number. The monotonic clock is
 * left alone: threads hand its readings back to the kernel to be woken by, and would sleep through the test. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static volatile const int64_t *offset;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("GUARD_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(0, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    real = dlsym(RTLD_NEXT, "clock_gettime");
    offset = page == MAP_FAILED ? 0 : page;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    if (result == 0 && offset && clock == CLOCK_REALTIME) time->tv_sec += *offset;
    return result;
}
