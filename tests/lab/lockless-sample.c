/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where the kernel spends its time while a command runs: a sampler in one file, since a guest has no room for perf and its libraries.
 *
 * A guest has no counters of its processor either, so the samples come from the kernel's high resolution timers ("cpu-clock"). Their
 * interrupt waits while interrupts are off: time that is spent so is found at the place where they are switched on again.
 *
 * Prints KEY VALUE lines: samples, of them user, lost; then "under SYMBOL SAMPLES" (there, or called from there) for the symbols asked
 * for, and "self SYMBOL SAMPLES" for the TOP symbols that most samples were in. Idle time is not sampled.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_CPUS 64
#define N_PAGES 256 /* of each CPU's ring */
#define MAX_RECORD 65536

struct symbol {
        uint64_t address;
        char name[56];
        unsigned self, under;
        unsigned last; /* the last sample that was counted under it: a recursion counts once */
};

static struct symbol *symbols;
static size_t n_symbols;
static unsigned n_samples, n_user, n_lost;

static void __attribute__((noreturn)) die(const char *what) {
        fprintf(stderr, "lockless-sample: %s: %s\n", what, strerror(errno));
        exit(1);
}

static int compare_addresses(const void *a, const void *b) {
        const struct symbol *x = a, *y = b;

        return (x->address > y->address) - (x->address < y->address);
}

static int compare_self(const void *a, const void *b) {
        const struct symbol *x = a, *y = b;

        return (x->self < y->self) - (x->self > y->self);
}

static void read_symbols(void) {
        FILE *file = fopen("/proc/kallsyms", "re");
        char line[512];
        size_t n_allocated = 0;

        if (!file)
                die("/proc/kallsyms");
        while (fgets(line, sizeof(line), file)) {
                char *end = NULL;
                uint64_t address = strtoull(line, &end, 16);

                if (address == 0 || end[0] != ' ' || !strchr("tTwW", end[1]) || end[1] == '\0')
                        continue;
                if (n_symbols == n_allocated) {
                        n_allocated = n_allocated ? n_allocated * 2 : 65536;
                        symbols = realloc(symbols, n_allocated * sizeof(*symbols));
                        if (!symbols)
                                die("symbols");
                }
                struct symbol *s = &symbols[n_symbols++];
                *s = (struct symbol){.address = address};
                (void)snprintf(s->name, sizeof(s->name), "%.*s", (int)strcspn(end + 3, " \t\n"), end + 3);
        }
        fclose(file);
        if (n_symbols == 0)
                die("no addresses in /proc/kallsyms, which only root is shown");
        qsort(symbols, n_symbols, sizeof(*symbols), compare_addresses);
}

/* The symbol that an address is in; NULL for one before all of them (user space). */
static struct symbol *find_symbol(uint64_t address) {
        size_t low = 0, high = n_symbols;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (symbols[middle].address <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low > 0 ? &symbols[low - 1] : NULL;
}

/* ip, number of the chain's entries, the chain: the order that perf_event_open(2) gives for PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN. */
static void take_sample(const uint64_t *words, uint16_t misc) {
        n_samples++;
        if ((misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_KERNEL) {
                n_user++;
                return;
        }
        struct symbol *at = find_symbol(words[0]);
        if (at)
                at->self++;
        for (uint64_t i = 0; i < words[1]; i++) {
                /* The largest values are marks between kernel and user space. */
                struct symbol *s = words[2 + i] < (uint64_t)PERF_CONTEXT_MAX ? find_symbol(words[2 + i]) : NULL;

                if (s && s->last != n_samples) {
                        s->last = n_samples;
                        s->under++;
                }
        }
}

static void drain(struct perf_event_mmap_page *page, size_t page_size) {
        static uint64_t record[MAX_RECORD / sizeof(uint64_t)];
        const char *data = (const char *)page + page_size;
        uint64_t size = N_PAGES * page_size, tail = page->data_tail;
        uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);

        while (tail < head) {
                struct perf_event_header header;

                memcpy(&header, data + tail % size, sizeof(header)); /* records are aligned to 8 bytes: this one is never split */
                if (header.size < sizeof(header))
                        break;
                for (size_t i = 0; i < header.size; i += sizeof(uint64_t))
                        memcpy((char *)record + i, data + (tail + i) % size, sizeof(uint64_t));
                if (header.type == PERF_RECORD_SAMPLE)
                        take_sample(record + 1, header.misc);
                else if (header.type == PERF_RECORD_LOST)
                        n_lost += (unsigned)record[2]; /* id, lost */
                tail += header.size;
        }
        __atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
}

int main(int argc, char **argv) {
        unsigned frequency = argc > 3 ? (unsigned)strtoul(argv[1], NULL, 10) : 0, n_top = 0;
        size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
        struct perf_event_mmap_page *pages[N_CPUS];
        struct pollfd fds[N_CPUS];
        int status = 0, first = 3;

        while (first < argc && strcmp(argv[first], "--") != 0)
                first++;
        if (frequency == 0 || first + 1 >= argc) {
                fprintf(stderr, "usage: %s FREQUENCY TOP SYMBOL... -- COMMAND...\n", argv[0]);
                return 2;
        }
        n_top = (unsigned)strtoul(argv[2], NULL, 10);
        read_symbols();

        struct perf_event_attr attr = {
                .type = PERF_TYPE_SOFTWARE,
                .config = PERF_COUNT_SW_CPU_CLOCK,
                .size = sizeof(attr),
                .sample_freq = frequency,
                .freq = 1,
                .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN,
                .exclude_callchain_user = 1,
                .exclude_idle = 1,
                .disabled = 1,
                .watermark = 1,
                .wakeup_watermark = (uint32_t)(N_PAGES * page_size / 4),
        };
        unsigned n_cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
        if (n_cpus > N_CPUS)
                n_cpus = N_CPUS;
        for (unsigned i = 0; i < n_cpus; i++) {
                int fd = (int)syscall(SYS_perf_event_open, &attr, -1, i, -1, PERF_FLAG_FD_CLOEXEC);
                if (fd < 0)
                        die("perf_event_open");
                pages[i] = mmap(NULL, (N_PAGES + 1) * page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                if (pages[i] == MAP_FAILED)
                        die("mmap of a ring");
                fds[i] = (struct pollfd){.fd = fd, .events = POLLIN};
        }

        pid_t pid = fork();
        if (pid < 0)
                die("fork");
        if (pid == 0) {
                execvp(argv[first + 1], argv + first + 1);
                die(argv[first + 1]);
        }
        for (unsigned i = 0; i < n_cpus; i++)
                if (syscall(SYS_ioctl, fds[i].fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
                        die("enable");
        while (waitpid(pid, &status, WNOHANG) == 0) {
                (void)poll(fds, n_cpus, 200);
                for (unsigned i = 0; i < n_cpus; i++)
                        drain(pages[i], page_size);
        }
        for (unsigned i = 0; i < n_cpus; i++) {
                (void)syscall(SYS_ioctl, fds[i].fd, PERF_EVENT_IOC_DISABLE, 0);
                drain(pages[i], page_size);
        }

        printf("samples %u\nuser %u\nlost %u\n", n_samples, n_user, n_lost);
        for (int k = 3; k < first; k++) {
                unsigned under = 0;

                for (size_t i = 0; i < n_symbols; i++)
                        if (strcmp(symbols[i].name, argv[k]) == 0)
                                under += symbols[i].under;
                printf("under %s %u\n", argv[k], under);
        }
        qsort(symbols, n_symbols, sizeof(*symbols), compare_self);
        for (size_t i = 0; i < n_top && i < n_symbols && symbols[i].self > 0; i++)
                printf("self %s %u\n", symbols[i].name, symbols[i].self);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
