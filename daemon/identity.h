/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Identity: whose is a cgroup? Pure: a raw path in, what systemd, container engines and virtual machine managers mean by it out.
 * One table of patterns, innermost match wins for the container, nearest unit for the unit.
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
        IdentityPart unit;      /* innermost systemd unit (.service, .scope, .socket, .mount, .swap, .slice when nothing inside) */
        IdentityPart slice;     /* innermost slice */
        IdentityPart machine;   /* nspawn or libvirt machine name, still escaped as in the path */
        IdentityPart container; /* container id (docker, podman, containerd, CRI-O) or LXC name */
        const char *engine;     /* "docker", "podman", "containerd", "cri-o", "lxc", "libvirt", "nspawn", or NULL */
        char pod_uid[37];       /* Kubernetes, with dashes, or "" */
} Identity;

/* path: raw bytes from the root of the hierarchy, len of them. Borrowed by the result. */
void identity_parse(const char *path, size_t len, Identity *ret);

/*
 * The creator pattern of one name: what varies from instance to instance becomes "*". "run-r1a2b.scope" and "run-r9f.scope" are both
 * "run-r*.scope"; "docker-<64 hex>.scope" is "docker-*.scope"; "session-12.scope" is "session-*.scope"; a name without anything that
 * varies is itself. The result is at most as long as the name. Returns the length written to buf (no NUL when size is too small is
 * never: size must be > len).
 */
size_t identity_pattern(const char *name, size_t len, char *buf, size_t size);
