/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Identity: whose is a cgroup? Pure: a raw path in, what systemd, container engines and virtual machine managers mean by it out. One
 * table drives both functions.
 *
 * Each fact is that of the innermost part of the path that tells it: of docker in Kubernetes in nspawn, the container is docker's, the
 * pod the one around it, the machine nspawn's. The engine is that of the innermost container or machine. Parts of a path that are not
 * UTF-8 or longer than a name can be are nobody's, no error.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Parts of the path given, not copies: pointer and length; NULL and 0 when there is none. */
typedef struct IdentityPart {
        const char *s;
        size_t len;
} IdentityPart;

typedef struct Identity {
        /*
         * Innermost systemd unit of any kind that has cgroups (.service, .scope, .socket, .mount, .swap, .slice), so the slice itself
         * when the path leads to it or to something in it that is no unit. Without the "_" that systemd puts before a name which could
         * be taken for a file of the cgroup file system.
         */
        IdentityPart unit;
        IdentityPart slice; /* innermost slice */
        /* nspawn: the machine; libvirt: the domain without driver and number ("web" of "qemu-3-web"). Still escaped as in the path. */
        IdentityPart machine;
        IdentityPart container; /* container id (docker, podman, containerd, CRI-O) or LXC name; of a monitor's cgroup too */
        const char *engine;     /* "docker", "podman", "containerd", "cri-o", "lxc", "libvirt", "nspawn", or NULL */
        char pod_uid[37];       /* Kubernetes, with dashes; static pods: 32 hex digits, as they are; or "" */
} Identity;

/* path: raw bytes from the root of the hierarchy, len of them. Borrowed by the result. */
void identity_parse(const char *path, size_t len, Identity *ret);

/*
 * The creator pattern of one name: what varies from instance to instance becomes "*". "run-r1a2b.scope" and "run-r9f.scope" are both
 * "run-r*.scope"; "docker-<64 hex>.scope" is "docker-*.scope"; "session-12.scope" is "session-*.scope"; a name without anything that
 * varies is itself.
 *
 * It is conservative where names are chosen by configuration. In services, sockets, mounts, swaps, slices, and the names of machines and
 * LXC containers numbers stay (user@1000.service and user@1001.service are two people, web1 and web2 two machines) and only what no
 * person would choose varies: UUIDs (not after "uuid-": that is a disk), hexadecimal words of 12 digits and more with both digits and
 * letters, counters of connections and bus activations. In scopes, which programs make and name, numbers vary that are words of their
 * own, or end a word and have six digits or more; in plain cgroups, where nothing else is known, all numbers do. In both, hexadecimal
 * words from 8 digits on vary that change between digits and letters more than once.
 *
 * Needs size > len. Returns the length written to buf, at most len, and a NUL after it.
 */
size_t identity_pattern(const char *name, size_t len, char *buf, size_t size);
