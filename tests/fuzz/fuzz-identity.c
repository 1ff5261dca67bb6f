/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any bytes as a path, and each of its names as a name. */
#include "fuzz.h"
#include "identity.h"

static void check_part(IdentityPart part, const char *path, size_t len) {
        CHECK((part.s == NULL) == (part.len == 0));
        if (!part.s)
                return;
        CHECK(part.s >= path && part.s + part.len <= path + len);
        CHECK(!memchr(part.s, '/', part.len));
}

static void check_pattern(const char *name, size_t len) {
        char *exact = malloc(len ? len : 1), *buf = malloc(len + 1);
        size_t n;

        CHECK(exact && buf);
        memcpy(exact, name, len);
        memset(buf, 0x55, len + 1);
        n = identity_pattern(exact, len, buf, len + 1);
        CHECK(n <= len && buf[n] == '\0');
        CHECK((n == 0) == (len == 0));
        /* Only "*" is new: without one the name is its own pattern. */
        if (!memchr(buf, '*', n))
                CHECK(n == len && memcmp(buf, name, len) == 0);
        free(exact);
        free(buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *path = (const char *)data;
        Identity id;

        identity_parse(path, size, &id);
        check_part(id.unit, path, size);
        check_part(id.slice, path, size);
        check_part(id.machine, path, size);
        check_part(id.container, path, size);
        CHECK(!id.slice.s || id.unit.s >= id.slice.s);
        CHECK((id.engine != NULL) == (id.machine.s || id.container.s));
        CHECK(memchr(id.pod_uid, '\0', sizeof(id.pod_uid)));
        CHECK(strlen(id.pod_uid) == 0 || strlen(id.pod_uid) == 32 || strlen(id.pod_uid) == 36);
        CHECK(strspn(id.pod_uid, "0123456789abcdef-") == strlen(id.pod_uid));

        for (size_t at = 0; at <= size;) {
                const char *slash = at < size ? memchr(path + at, '/', size - at) : NULL;
                size_t len = slash ? (size_t)(slash - path) - at : size - at;

                check_pattern(size ? path + at : "", len);
                at += len + 1;
        }
        return 0;
}

size_t fuzz_generate(Random *random, uint8_t *buf, size_t size) {
        static const char *const pieces[] = {
                "docker",
                "docker-",
                "libpod-",
                "conmon-",
                "cri-containerd-",
                "crio-",
                "kubepods",
                "burstable",
                "-pod",
                "pod",
                "lxc",
                "lxc.payload.",
                "machine-",
                "machine-qemu\\x2d",
                "qemu-",
                ".libvirt-qemu",
                "systemd-nspawn@",
                "run-r",
                "run-u",
                "run-p",
                "-i",
                "session-",
                "user@",
                ".service",
                ".scope",
                ".slice",
                ".mount",
                ".socket",
                ".swap",
                "-runc.",
                "tmp.",
                "dbus-:",
                "/",
                "/",
                "/",
                "-",
                "_",
                "\\x2d",
                "uuid-",
                "@",
                "12",
                "a1b2c3d4",
                "d3b07384-d113-4ec6-a1b2-0123456789ab",
                "d3b07384_d113_4ec6_a1b2_0123456789ab",
                "00112233445566778899aabbccddeeff",
                "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
                "\xff",
                "*",
        };
        size_t len = 0;

        if (random_once_in(random, 8))
                return fuzz_noise(random, buf, size);
        while (len + 64 < size && !random_once_in(random, 30)) {
                const char *piece = pieces[random_below(random, ELEMENTSOF(pieces))];

                memcpy(buf + len, piece, strlen(piece));
                len += strlen(piece);
                if (random_once_in(random, 10))
                        buf[len++] = (uint8_t)random_u64(random);
                if (random_once_in(random, 20) && len > 0)
                        len--;
        }
        return len;
}
