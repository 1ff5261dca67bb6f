/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The form of the file, in the byte order of the machine: a head in the first 4,096 bytes, then the slots of the fine ring, then those
 * of the coarse one. A record has a sequence number, which counts from 1 on in each ring, and lies in the slot (number mod slots): so
 * one pwrite() makes it, always over the oldest of its ring, and no pointer to the newest has to be kept in step. Its checksum tells
 * whether all of it was written. Zeros are a slot that never was.
 *
 * HistorySample goes to disk as it is in memory. Who changes it changes VERSION as well; the assertions below remind of that.
 */
#include "history-file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#define NAME "history"
#define NAME_NEW "history.new"
#define NAME_BAD "history.bad"
#define FILE_MODE 0640

#define MAGIC "SWHISTRY"
#define ORDER 0x01020304U
#define ORDER_SWAPPED 0x04030201U
#define VERSION 1U
#define HEAD_BYTES 4096
#define FINE_SLOTS 1440
#define COARSE_SLOTS 2160
/* Never reached by counting: such a number is damage, and the one after it must not wrap. */
#define SEQUENCE_MAX (UINT64_MAX / 2)

typedef struct Head {
        char magic[8];
        uint32_t order;
        uint32_t version;
        uint32_t record_bytes;
        uint32_t slots[_HISTORY_RING_MAX];
        uint32_t reserved;
        uint64_t checksum; /* of all above */
} Head;

typedef struct Record {
        uint64_t checksum; /* of all below */
        uint64_t sequence;
        uint64_t ring;
        HistorySample sample;
} Record;

_Static_assert(sizeof(Head) == 40, "no holes in the head");
_Static_assert(sizeof(HistoryTop) == HISTORY_NAME_MAX + 16, "no holes in what is on disk");
_Static_assert(sizeof(HistorySample) == 18 * 8 + 2 * HISTORY_TOP * sizeof(HistoryTop),
               "another sample is another VERSION, and has no holes");
_Static_assert(sizeof(Record) == 1832, "another record is another VERSION");

static const size_t slots[_HISTORY_RING_MAX] = {
        [HISTORY_FINE] = FINE_SLOTS,
        [HISTORY_COARSE] = COARSE_SLOTS,
};

uint64_t history_file_hash(const void *data, size_t len) {
        const uint8_t *bytes = data;
        uint64_t hash = 0xcbf29ce484222325, word;

        /* FNV-1a's step, on eight bytes at a time: each step is a bijection, so a change within one word is always seen. */
        for (; len >= sizeof(word); len -= sizeof(word), bytes += sizeof(word)) {
                memcpy(&word, bytes, sizeof(word));
                hash = (hash ^ word) * 0x100000001b3;
        }
        for (size_t i = 0; i < len; i++)
                hash = (hash ^ bytes[i]) * 0x100000001b3;
        return hash;
}

size_t history_file_slots(HistoryRing ring) {
        return slots[ring];
}

static off_t ring_offset(HistoryRing ring) {
        size_t before = ring == HISTORY_COARSE ? FINE_SLOTS : 0;

        return HEAD_BYTES + (off_t)(before * sizeof(Record));
}

static off_t file_bytes(void) {
        return ring_offset(HISTORY_COARSE) + (off_t)(COARSE_SLOTS * sizeof(Record));
}

static Head make_head(void) {
        Head head = {
                .order = ORDER,
                .version = VERSION,
                .record_bytes = sizeof(Record),
                .slots = { FINE_SLOTS, COARSE_SLOTS },
        };

        memcpy(head.magic, MAGIC, sizeof(head.magic));
        head.checksum = history_file_hash(&head, offsetof(Head, checksum));
        return head;
}

static int write_all(int fd, const void *data, size_t len, off_t at) {
        const uint8_t *bytes = data;

        while (len > 0) {
                ssize_t n = pwrite(fd, bytes, len, at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        return -EIO;
                bytes += n;
                len -= (size_t)n;
                at += n;
        }
        return 0;
}

/* Reads until the end of the file or the first error. Returns how much that was, or the error when it was nothing. */
static ssize_t read_some(int fd, void *data, size_t len, off_t at) {
        uint8_t *bytes = data;
        size_t done = 0;

        while (done < len) {
                ssize_t n = pread(fd, bytes + done, len - done, at + (off_t)done);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && done == 0)
                        return -errno;
                if (n <= 0)
                        break;
                done += (size_t)n;
        }
        return (ssize_t)done;
}

static int take_fd(int *fd) {
        int taken = *fd;

        *fd = -1;
        return taken;
}

/* All room there will ever be need of. Also for a file that is there: it may have been cut off. */
static int take_room(int fd) {
        int r;

        do
                r = posix_fallocate(fd, 0, file_bytes());
        while (r == EINTR);
        return -r;
}

/* EWOULDBLOCK, when another process writes it: two would write over each other's records. */
static int take_lock(int fd) {
        return flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
}

static int fill_new(int fd) {
        const Head head = make_head();
        int r;

        /* Whatever the umask is: a group may be let in, the world not. */
        if (fchmod(fd, FILE_MODE) < 0)
                return -errno;
        r = take_lock(fd);
        if (r < 0)
                return r;
        r = take_room(fd);
        if (r < 0)
                return r;
        r = write_all(fd, &head, sizeof(head), 0);
        if (r < 0)
                return r;
        /* Or a power failure may leave the name, and zeros in place of the head. */
        return fdatasync(fd) < 0 ? -errno : 0;
}

/* Under another name until it is whole, so that what is called "history" never is half a file. */
static int make_file(int dirfd) {
        _cleanup_(closep) int fd = -1;
        int r;

        if (unlinkat(dirfd, NAME_NEW, 0) < 0 && errno != ENOENT)
                return -errno;
        fd = openat(dirfd, NAME_NEW, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
        if (fd < 0)
                return -errno;
        r = fill_new(fd);
        if (r == 0 && renameat(dirfd, NAME_NEW, dirfd, NAME) < 0)
                r = -errno;
        if (r < 0) {
                (void)unlinkat(dirfd, NAME_NEW, 0);
                return r;
        }
        return take_fd(&fd);
}

/* 1: the head is ours; 0: it is not, *ret_why says why; or a negative errno. */
static int check_head(int fd, char **ret_why) {
        const Head wanted = make_head();
        Head head = {};
        ssize_t n;
        int r = 0;

        n = read_some(fd, &head, sizeof(head), 0);
        if (n < 0)
                return (int)n;
        if (n == (ssize_t)sizeof(head) && memcmp(&head, &wanted, sizeof(head)) == 0)
                return 1;

        if (n < (ssize_t)sizeof(head) || memcmp(head.magic, MAGIC, sizeof(head.magic)) != 0)
                r = asprintf(ret_why, "it is no history file");
        else if (head.order == ORDER_SWAPPED)
                r = asprintf(ret_why, "it is of a machine with the other byte order");
        else if (head.order != ORDER || head.checksum != history_file_hash(&head, offsetof(Head, checksum)))
                r = asprintf(ret_why, "its head is damaged");
        else
                r = asprintf(ret_why, "it is of version %u, and this daemon writes version %u", head.version, VERSION);
        return r < 0 ? -ENOMEM : 0;
}

/* A descriptor; -ENOENT: none is there; -EMEDIUMTYPE: one of another form is, *ret_why says which. */
static int open_old(int dirfd, char **ret_why) {
        _cleanup_(closep) int fd = -1;
        struct stat st;
        int r;

        /* O_NONBLOCK: should it be a fifo or a device. */
        fd = openat(dirfd, NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EBADFD;
        r = take_lock(fd);
        if (r < 0)
                return r;
        r = check_head(fd, ret_why);
        if (r < 0)
                return r;
        if (r == 0)
                return -EMEDIUMTYPE;
        r = take_room(fd);
        if (r < 0)
                return r;
        return take_fd(&fd);
}

int history_file_open(int dirfd, char **ret_note) {
        _cleanup_(freep) char *why = NULL;
        int r;

        r = open_old(dirfd, &why);
        if (r == -ENOENT)
                return make_file(dirfd);
        if (r != -EMEDIUMTYPE)
                return r;
        if (renameat(dirfd, NAME, dirfd, NAME_BAD) < 0)
                return -errno;
        if (ret_note &&
            asprintf(ret_note, "The file \"" NAME "\" could not be used: %s. It is called \"" NAME_BAD "\" now, and a new one was begun.",
                     why) < 0) {
                *ret_note = NULL;
                return -ENOMEM;
        }
        return make_file(dirfd);
}

/* Names end with a NUL, whatever else is in a record whose checksum is right. */
static bool names_end(const HistoryTop *tops) {
        for (size_t i = 0; i < HISTORY_TOP; i++)
                if (!memchr(tops[i].name, '\0', sizeof(tops[i].name)))
                        return false;
        return true;
}

static bool record_is_good(const Record *record, HistoryRing ring) {
        return record->sequence > 0 && record->sequence <= SEQUENCE_MAX && record->ring == (uint64_t)ring &&
               record->checksum == history_file_hash(&record->sequence, sizeof(*record) - offsetof(Record, sequence)) &&
               names_end(record->sample.creators) && names_end(record->sample.subtrees);
}

/* What a ring is read with. */
typedef struct Load {
        Record records[64];
        uint64_t sequences[COARSE_SLOTS]; /* slot → number of a good record; 0: there is none */
} Load;

_Static_assert(FINE_SLOTS <= COARSE_SLOTS, "Load.sequences is for the larger of the two");

/* Each good record goes where its slot is. Returns the highest number. */
static uint64_t load_slots(int fd, HistoryRing ring, HistorySample *samples, Load *l) {
        uint64_t newest = 0;
        size_t n;

        for (size_t slot = 0; slot < slots[ring]; slot += n) {
                size_t want = slots[ring] - slot < ELEMENTSOF(l->records) ? slots[ring] - slot : ELEMENTSOF(l->records);
                ssize_t got = read_some(fd, l->records, want * sizeof(Record), ring_offset(ring) + (off_t)(slot * sizeof(Record)));

                if (got == 0)
                        break;
                n = got > 0 ? (size_t)got / sizeof(Record) : 0;
                for (size_t i = 0; i < n; i++) {
                        const Record *r = &l->records[i];

                        if (!record_is_good(r, ring))
                                continue;
                        l->sequences[slot + i] = r->sequence;
                        samples[slot + i] = r->sample;
                        if (r->sequence > newest)
                                newest = r->sequence;
                }
                /* It ends within this one, or the disk has a bad place there. */
                if (n < want)
                        n++;
        }
        return newest;
}

int history_file_load(int fd, HistoryRing ring, HistorySample *samples, size_t *ret_first, uint64_t *ret_sequence) {
        _cleanup_(freep) Load *l = NULL;
        uint64_t newest, oldest;
        size_t n = 0;

        l = calloc(1, sizeof(*l));
        if (!l)
                return -ENOMEM;
        newest = load_slots(fd, ring, samples, l);
        oldest = newest > slots[ring] ? newest - slots[ring] + 1 : 1;
        /*
         * They close ranks. A slot whose number is not the one that belongs there in this round has what a failed write should have
         * replaced, or what never belonged there.
         */
        for (uint64_t sequence = oldest; sequence <= newest; sequence++)
                if (l->sequences[sequence % slots[ring]] == sequence)
                        samples[(oldest + n++) % slots[ring]] = samples[sequence % slots[ring]];
        *ret_first = oldest % slots[ring];
        *ret_sequence = newest;
        return (int)n;
}

int history_file_write(int fd, HistoryRing ring, uint64_t sequence, const HistorySample *sample) {
        Record record = { .sequence = sequence, .ring = (uint64_t)ring, .sample = *sample };

        record.checksum = history_file_hash(&record.sequence, sizeof(record) - offsetof(Record, sequence));
        return write_all(fd, &record, sizeof(record), ring_offset(ring) + (off_t)(sequence % slots[ring] * sizeof(record)));
}
