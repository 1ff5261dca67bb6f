/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Identities: paths as they are found on hosts, and names that are nearly those. */
#include <inttypes.h>
#include <stdio.h>

#include "builder.h"
#include "check.h"
#include "identity.h"

#define ID "8c4f1d0e6a7b92d35e1f00c9ab54837261fdc0be9a8877665544332211ffeedd"
#define ID2 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define UID "d3b07384-d113-4ec6-a1b2-0123456789ab"
#define UID_ "d3b07384_d113_4ec6_a1b2_0123456789ab"
#define STATIC_UID "5c1e7d8f9a0b4c3d2e1f0a9b8c7d6e5f"

typedef struct Case {
        const char *path;
        const char *unit, *slice, *machine, *container, *engine, *pod;
} Case;

#define USER "/user.slice/user-1000.slice/user@1000.service"
#define BURSTABLE "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice"

/* clang-format off */
static const Case cases[] = {
        /* systemd */
        { "/" },
        { "" },
        { "/init.scope", .unit = "init.scope" },
        { "/system.slice", .unit = "system.slice", .slice = "system.slice" },
        { "/system.slice/sshd.service", .unit = "sshd.service", .slice = "system.slice" },
        { "/system.slice/dbus.socket", .unit = "dbus.socket", .slice = "system.slice" },
        { "/system.slice/dev-hugepages.mount", .unit = "dev-hugepages.mount", .slice = "system.slice" },
        { "/system.slice/dev-disk-by\\x2duuid-" UID ".swap", .unit = "dev-disk-by\\x2duuid-" UID ".swap", .slice = "system.slice" },
        { "/system.slice/system-getty.slice/getty@tty1.service", .unit = "getty@tty1.service", .slice = "system-getty.slice" },
        { "/system.slice/system-postgresql.slice/postgresql@15-main.service", .unit = "postgresql@15-main.service", .slice = "system-postgresql.slice" },
        { "/system.slice/run-r1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d.scope", .unit = "run-r1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d.scope", .slice = "system.slice" },
        { "/system.slice/foo.service/workers/w1", .unit = "foo.service", .slice = "system.slice" },
        { "/system.slice/foo.timer", .unit = "system.slice", .slice = "system.slice" },
        { "/system.slice/_cpu.service", .unit = "cpu.service", .slice = "system.slice" },
        { "/system.slice/__x.service", .unit = "_x.service", .slice = "system.slice" },
        { "/user.slice/user-1000.slice/session-12.scope", .unit = "session-12.scope", .slice = "user-1000.slice" },
        { "/user.slice/user-1000.slice/session-c1.scope", .unit = "session-c1.scope", .slice = "user-1000.slice" },
        { USER, .unit = "user@1000.service", .slice = "user-1000.slice" },
        { USER "/init.scope", .unit = "init.scope", .slice = "user-1000.slice" },
        { USER "/app.slice", .unit = "app.slice", .slice = "app.slice" },
        { USER "/app.slice/app-gnome-firefox-12345.scope", .unit = "app-gnome-firefox-12345.scope", .slice = "app.slice" },
        { USER "/app.slice/app-org.gnome.Terminal.slice/vte-spawn-" UID ".scope", .unit = "vte-spawn-" UID ".scope", .slice = "app-org.gnome.Terminal.slice" },
        { USER "/session.slice/org.gnome.Shell@wayland.service", .unit = "org.gnome.Shell@wayland.service", .slice = "session.slice" },
        { "user.slice", .unit = "user.slice", .slice = "user.slice" },
        { "//system.slice///sshd.service//", .unit = "sshd.service", .slice = "system.slice" },
        /* what only looks like a unit */
        { "/.service" },
        { "/@foo.service" },
        { "/_.slice" },
        { "/b\xfcro.service" },
        { "/a b.service" },
        { "/foo.services" },
        { "/a.service/b c.scope", .unit = "a.service" },

        /* nspawn */
        { "/machine.slice/systemd-nspawn@web.service", .unit = "systemd-nspawn@web.service", .slice = "machine.slice", .machine = "web", .engine = "nspawn" },
        { "/machine.slice/machine-web\\x2d1.scope", .unit = "machine-web\\x2d1.scope", .slice = "machine.slice", .machine = "web\\x2d1", .engine = "nspawn" },
        { "/machine.slice/systemd-nspawn@web.service/payload/system.slice/nginx.service", .unit = "nginx.service", .slice = "system.slice", .machine = "web", .engine = "nspawn" },
        { "/machine.slice/machine-a.scope/payload/machine.slice/machine-b.scope", .unit = "machine-b.scope", .slice = "machine.slice", .machine = "b", .engine = "nspawn" },
        { "/machine.slice/machine-.scope", .unit = "machine-.scope", .slice = "machine.slice" },

        /* libvirt */
        { "/machine.slice/machine-qemu\\x2d3\\x2ddebian\\x2d12.scope", .unit = "machine-qemu\\x2d3\\x2ddebian\\x2d12.scope", .slice = "machine.slice", .machine = "debian\\x2d12", .engine = "libvirt" },
        { "/machine.slice/machine-qemu\\x2d3\\x2dvm.scope/libvirt/vcpu0", .unit = "machine-qemu\\x2d3\\x2dvm.scope", .slice = "machine.slice", .machine = "vm", .engine = "libvirt" },
        { "/machine.slice/machine-lxc\\x2d71\\x2dbox.scope", .unit = "machine-lxc\\x2d71\\x2dbox.scope", .slice = "machine.slice", .machine = "box", .engine = "libvirt" },
        { "/machine/qemu-3-vm.libvirt-qemu/emulator", .machine = "vm", .engine = "libvirt" },
        { "/machine/vm.libvirt-qemu", .machine = "vm", .engine = "libvirt" },
        { "/machine/lxc-71-box.libvirt-lxc", .machine = "box", .engine = "libvirt" },
        { "/machine/qemu-x-vm.libvirt-qemu", .machine = "qemu-x-vm", .engine = "libvirt" },
        /* a machine that somebody called so */
        { "/machine.slice/machine-qemu\\x2dvm.scope", .unit = "machine-qemu\\x2dvm.scope", .slice = "machine.slice", .machine = "qemu\\x2dvm", .engine = "nspawn" },

        /* docker */
        { "/system.slice/docker-" ID ".scope", .unit = "docker-" ID ".scope", .slice = "system.slice", .container = ID, .engine = "docker" },
        { "/docker/" ID, .container = ID, .engine = "docker" },
        { "/docker/" ID "/system.slice/sshd.service", .unit = "sshd.service", .slice = "system.slice", .container = ID, .engine = "docker" },
        { "/docker/" ID "/docker/" ID2, .container = ID2, .engine = "docker" },
        { "/system.slice/docker.service", .unit = "docker.service", .slice = "system.slice" },
        { USER "/app.slice/docker-" ID ".scope", .unit = "docker-" ID ".scope", .slice = "app.slice", .container = ID, .engine = "docker" },
        { "/docker/buildkit" },
        { "/docker/" ID "f" },
        { "/docker/" ID "-x" },
        { "/docker-" ID },
        { "/" ID },
        { "/docker/8C4F1D0E6A7B92D35E1F00C9AB54837261FDC0BE9A8877665544332211FFEEDD" },

        /* podman */
        { "/machine.slice/libpod-" ID ".scope", .unit = "libpod-" ID ".scope", .slice = "machine.slice", .container = ID, .engine = "podman" },
        { "/machine.slice/libpod-" ID ".scope/container", .unit = "libpod-" ID ".scope", .slice = "machine.slice", .container = ID, .engine = "podman" },
        { "/machine.slice/libpod-conmon-" ID ".scope", .unit = "libpod-conmon-" ID ".scope", .slice = "machine.slice", .container = ID, .engine = "podman" },
        { "/machine.slice/machine-libpod_pod_" ID ".slice/libpod-" ID2 ".scope", .unit = "libpod-" ID2 ".scope", .slice = "machine-libpod_pod_" ID ".slice", .container = ID2, .engine = "podman" },
        { USER "/user.slice/libpod-" ID ".scope/container", .unit = "libpod-" ID ".scope", .slice = "user.slice", .container = ID, .engine = "podman" },
        { "/libpod_parent/libpod-" ID, .container = ID, .engine = "podman" },
        { "/libpod_parent/libpod-conmon-" ID, .container = ID, .engine = "podman" },
        { "/system.slice/web.service/libpod-payload-" ID, .unit = "web.service", .slice = "system.slice", .container = ID, .engine = "podman" },

        /* containerd, CRI-O, Kubernetes: systemd driver */
        { BURSTABLE "/cri-containerd-" ID ".scope", .unit = "cri-containerd-" ID ".scope", .slice = "kubepods-burstable-pod" UID_ ".slice", .container = ID, .engine = "containerd", .pod = UID },
        { BURSTABLE, .unit = "kubepods-burstable-pod" UID_ ".slice", .slice = "kubepods-burstable-pod" UID_ ".slice", .pod = UID },
        { "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_ ".slice/crio-" ID ".scope", .unit = "crio-" ID ".scope", .slice = "kubepods-besteffort-pod" UID_ ".slice", .container = ID, .engine = "cri-o", .pod = UID },
        { "/kubepods.slice/kubepods-pod" UID_ ".slice/crio-conmon-" ID ".scope", .unit = "crio-conmon-" ID ".scope", .slice = "kubepods-pod" UID_ ".slice", .container = ID, .engine = "cri-o", .pod = UID },
        { "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" STATIC_UID ".slice/cri-containerd-" ID ".scope", .unit = "cri-containerd-" ID ".scope", .slice = "kubepods-burstable-pod" STATIC_UID ".slice", .container = ID, .engine = "containerd", .pod = STATIC_UID },
        { "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope", .unit = "cri-containerd-" ID ".scope", .slice = "kubelet-kubepods-burstable-pod" UID_ ".slice", .container = ID, .engine = "containerd", .pod = UID },
        { "/kubepods.slice/kubepods-burstable.slice", .unit = "kubepods-burstable.slice", .slice = "kubepods-burstable.slice" },
        { "/kubepods.slice/kubepods-burstable-podnot_a_uid.slice", .unit = "kubepods-burstable-podnot_a_uid.slice", .slice = "kubepods-burstable-podnot_a_uid.slice" },
        { "/notkubepods-pod" UID_ ".slice", .unit = "notkubepods-pod" UID_ ".slice", .slice = "notkubepods-pod" UID_ ".slice" },
        /* cgroupfs driver */
        { "/kubepods/burstable/pod" UID "/" ID, .container = ID, .engine = "containerd", .pod = UID },
        { "/kubepods/besteffort/pod" UID "/" ID, .container = ID, .engine = "containerd", .pod = UID },
        { "/kubepods/pod" UID "/" ID, .container = ID, .engine = "containerd", .pod = UID },
        { "/kubepods/pod" UID, .pod = UID },
        { "/kubepods/burstable/pod" STATIC_UID "/" ID, .container = ID, .engine = "containerd", .pod = STATIC_UID },
        { "/kubelet/kubepods/burstable/pod" UID "/crio-" ID, .container = ID, .engine = "cri-o", .pod = UID },
        { "/kubepods/burstable/pod" UID "/crio-conmon-" ID, .container = ID, .engine = "cri-o", .pod = UID },
        { "/kubepods/burstable/pod" UID "/x/" ID, .pod = UID },
        { "/elsewhere/pod" UID "/" ID },
        { "/kubepods/burstable/pod" UID "0/" ID },
        { "/kubepods/burstable/pod" UID_ "/" ID },
        { "/system.slice/nerdctl-" ID ".scope", .unit = "nerdctl-" ID ".scope", .slice = "system.slice", .container = ID, .engine = "containerd" },

        /* LXC */
        { "/lxc.payload.web1", .container = "web1", .engine = "lxc" },
        { "/lxc.payload.web1/system.slice/cron.service", .unit = "cron.service", .slice = "system.slice", .container = "web1", .engine = "lxc" },
        { "/lxc.monitor.web1", .container = "web1", .engine = "lxc" },
        { "/lxc/web1/init.scope", .unit = "init.scope", .container = "web1", .engine = "lxc" },
        { "/lxc.payload/web1", .container = "web1", .engine = "lxc" },
        { "/lxc.monitor/web1", .container = "web1", .engine = "lxc" },
        { "/lxc.payload." },
        { "/lxc" },

        /* one in another */
        { "/docker/" ID2 "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope", .unit = "cri-containerd-" ID ".scope", .slice = "kubelet-kubepods-pod" UID_ ".slice", .container = ID, .engine = "containerd", .pod = UID },
        { "/machine.slice/machine-k8s.scope/payload" BURSTABLE "/cri-containerd-" ID ".scope/docker/" ID2, .unit = "cri-containerd-" ID ".scope", .slice = "kubepods-burstable-pod" UID_ ".slice", .machine = "k8s", .container = ID2, .engine = "docker", .pod = UID },
        { "/lxc.payload.host/machine.slice/machine-in.scope", .unit = "machine-in.scope", .slice = "machine.slice", .machine = "in", .container = "host", .engine = "nspawn" },
};
/* clang-format on */

static void assert_part(const Case *c, const char *what, IdentityPart got, const char *expected) {
        if (!expected) {
                if (got.s || got.len)
                        fail_msg("%s: %s is %.*s, should be nothing", c->path, what, (int)got.len, got.s);
                return;
        }
        if (got.len != strlen(expected) || memcmp(got.s, expected, got.len) != 0)
                fail_msg("%s: %s is %.*s, should be %s", c->path, what, (int)got.len, got.s ?: "", expected);
}

static void test_paths(_unused_ void **state) {
        assert_true(ELEMENTSOF(cases) >= 60);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const Case *c = &cases[i];
                size_t len = strlen(c->path);
                char *exact = malloc(len ? len : 1);
                Identity id;

                assert_non_null(exact);
                memcpy(exact, c->path, len);
                memset(&id, 0xff, sizeof(id));
                identity_parse(exact, len, &id);
                assert_part(c, "unit", id.unit, c->unit);
                assert_part(c, "slice", id.slice, c->slice);
                assert_part(c, "machine", id.machine, c->machine);
                assert_part(c, "container", id.container, c->container);
                if ((id.engine != NULL) != (c->engine != NULL) || (id.engine && strcmp(id.engine, c->engine) != 0))
                        fail_msg("%s: engine is %s", c->path, id.engine ?: "nothing");
                assert_string_equal(id.pod_uid, c->pod ?: "");
                free(exact);
        }
}

/* Names that are too long for a name are nobody's, however they begin and end; one that just fits is a unit. */
static void test_long(_unused_ void **state) {
        char path[600];
        Identity id;

        memset(path, 'u', sizeof(path));
        path[0] = '/';
        memcpy(path + 256 - 8, ".service", 8);
        identity_parse(path, 256, &id);
        assert_int_equal(id.unit.len, 255);
        memset(path, 'u', sizeof(path));
        path[0] = '/';
        memcpy(path + 257 - 8, ".service", 8);
        identity_parse(path, 257, &id);
        assert_int_equal(id.unit.len, 0);
        memset(path, 'u', sizeof(path));
        memcpy(path, "/lxc.payload.", 13);
        identity_parse(path, 256, &id);
        assert_int_equal(id.container.len, 243);
        identity_parse(path, 257, &id);
        assert_int_equal(id.container.len, 0);
        identity_parse("/x\0.service", 11, &id);
        assert_null(id.unit.s);
}

/* clang-format off */
static const char *const patterns[][2] = {
        /* the examples of the contract */
        { "run-r1a2b.scope", "run-r*.scope" },
        { "run-r9f.scope", "run-r*.scope" },
        { "docker-" ID ".scope", "docker-*.scope" },
        { "session-12.scope", "session-*.scope" },
        /* systemd-run, logind, desktop */
        { "run-r1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d.service", "run-r*.service" },
        { "run-u12.service", "run-u*.service" },
        { "run-u7.scope", "run-u*.scope" },
        { "run-p1234-i5678.scope", "run-p*-i*.scope" },
        { "run-p1234-i5678.service", "run-p*-i*.service" },
        { "run-4711.scope", "run-*.scope" },
        { "run-parts.scope", "run-parts.scope" },
        { "run-user-1000.mount", "run-user-1000.mount" },
        { "session-c3.scope", "session-c*.scope" },
        { "app-gnome-firefox-12345.scope", "app-gnome-firefox-*.scope" },
        { "app-python3.11-4711.scope", "app-python3.11-*.scope" },
        { "vte-spawn-" UID ".scope", "vte-spawn-*.scope" },
        { "snap.firefox.firefox-" UID ".scope", "snap.firefox.firefox-*.scope" },
        { "crun-buildah-buildah123456789.scope", "crun-buildah-buildah*.scope" },
        { "dbus-:1.2-org.gnome.Maps@0.service", "dbus-:*.*-org.gnome.Maps@*.service" },
        { "sshd@3-10.0.0.1:22-10.0.0.9:51404.service", "sshd@*.service" },
        { "sshd@3-[2001:db8::1]:22-[2001:db8::2]:5.service", "sshd@*.service" },
        { "systemd-coredump@12-3456-0.service", "systemd-coredump@*.service" },
        { "app-gnome-org.gnome.Terminal@1a2b3c4d5e6f47a8b9c0d1e2f3a4b5c6.service", "app-gnome-org.gnome.Terminal@*.service" },
        /* containers and machines */
        { ID, "*" },
        { "libpod-" ID ".scope", "libpod-*.scope" },
        { "libpod-conmon-" ID ".scope", "libpod-conmon-*.scope" },
        { "libpod-" ID, "libpod-*" },
        { "cri-containerd-" ID ".scope", "cri-containerd-*.scope" },
        { "crio-" ID ".scope", "crio-*.scope" },
        { "machine-libpod_pod_" ID ".slice", "machine-libpod_pod_*.slice" },
        { "pod" UID, "pod*" },
        { "pod" STATIC_UID, "pod*" },
        { "kubepods-burstable-pod" UID_ ".slice", "kubepods-burstable-pod*.slice" },
        { "kubelet-kubepods-pod" UID_ ".slice", "kubelet-kubepods-pod*.slice" },
        { "machine-qemu\\x2d3\\x2dweb\\x2d1.scope", "machine-qemu\\x2d*\\x2dweb\\x2d1.scope" },
        { "qemu-3-web-1.libvirt-qemu", "qemu-*-web-1.libvirt-qemu" },
        { "machine-debian\\x2d1234567890abcdef.scope", "machine-debian\\x2d*.scope" },
        { "run-docker-runtime\\x2drunc-moby-" ID "-runc.yZlTPQ.mount", "run-docker-runtime\\x2drunc-moby-*-runc.*.mount" },
        { "var-lib-kubelet-pods-d3b07384\\x2dd113\\x2d4ec6\\x2da1b2\\x2d0123456789ab-volumes-x.mount", "var-lib-kubelet-pods-*-volumes-x.mount" },
        { "run-containerd-io.containerd.grpc.v1.cri-sandboxes-" ID "-shm.mount", "run-containerd-io.containerd.grpc.v1.cri-sandboxes-*-shm.mount" },
        /* what differs in meaning stays apart */
        { "user@1000.service", "user@1000.service" },
        { "user@1234567890.service", "user@1234567890.service" },
        { "user-1000.slice", "user-1000.slice" },
        { "user-runtime-dir@1000.service", "user-runtime-dir@1000.service" },
        { "getty@tty1.service", "getty@tty1.service" },
        { "postgresql@15-main.service", "postgresql@15-main.service" },
        { "ext4-2.mount", "ext4-2.mount" },
        { "mnt-deadbeef.mount", "mnt-deadbeef.mount" },
        { "dev-disk-by\\x2duuid-" UID ".swap", "dev-disk-by\\x2duuid-" UID ".swap" },
        { "machine-web1.scope", "machine-web1.scope" },
        { "systemd-nspawn@web1.service", "systemd-nspawn@web1.service" },
        { "lxc.payload.web1", "lxc.payload.web1" },
        { "lxc.monitor.web1", "lxc.monitor.web1" },
        { "worker-2.service", "worker-2.service" },
        { "backup@12-3.service", "backup@12-3.service" },
        { "build-1a2b3c4d.service", "build-1a2b3c4d.service" },
        { "build-" UID "9.service", "build-d3b07384-d113-4ec6-a1b2-*.service" }, /* no UUID */
        { "run-p123.scope", "run-p123.scope" },
        { "x-abc12345.scope", "x-abc12345.scope" },
        { "x-abc123456.scope", "x-abc*.scope" },
        { "x-3.y.scope", "x-3.y.scope" },
        { "init.scope", "init.scope" },
        { "system.slice", "system.slice" },
        /* cgroups that are not systemd's */
        { "wb1", "wb*" },
        { "job-12-3", "job-*-*" },
        { "vcpu0", "vcpu*" },
        { "12", "*" },
        { "build-1a2b3c4d", "build-*" },
        { "build-deadbeef", "build-deadbeef" },
        { "build-decade80", "build-decade*" },
        { "task-" UID, "task-*" },
        { "tmp.a1B2c3D4e5", "tmp.*" },
        { "tmpab1_x9zq", "tmp*" },
        { "tmpabcdefgh", "tmpabcdefgh" },
        { "tmp.folders", "tmp.folders" },
        { "\xff\xfe" "1", "\xff\xfe*" },
        { "a\\x2d1", "a\\x2d*" },
        { "", "" },
};
/* clang-format on */

static void test_patterns(_unused_ void **state) {
        for (size_t i = 0; i < ELEMENTSOF(patterns); i++) {
                size_t len = strlen(patterns[i][0]), n;
                char *exact = malloc(len ? len : 1), *buf = malloc(len + 1);

                assert_non_null(exact);
                assert_non_null(buf);
                memcpy(exact, patterns[i][0], len);
                n = identity_pattern(exact, len, buf, len + 1);
                if (strcmp(buf, patterns[i][1]) != 0)
                        fail_msg("%s: %s, should be %s", patterns[i][0], buf, patterns[i][1]);
                assert_int_equal(n, strlen(buf));
                free(exact);
                free(buf);
        }
}

static void test_pattern_bounds(_unused_ void **state) {
        char buf[8] = "xxxxxxx";

        assert_int_equal(identity_pattern("abc", 3, buf, 3), 0);
        assert_string_equal(buf, "");
        assert_int_equal(buf[1], 'x');
        assert_int_equal(identity_pattern("abc", 3, buf, 0), 0);
        assert_int_equal(identity_pattern("abc", 3, buf, 4), 3);
        assert_string_equal(buf, "abc");
        assert_int_equal(buf[4], 'x');
}

/* Names of one kind have one pattern, whatever the number in them is. */
static void test_instances(_unused_ void **state) {
        static const struct {
                const char *before, *after;
                bool hex;
        } kinds[] = {
                { "run-r", ".scope", true }, { "run-u", ".service", false }, { "session-", ".scope", false },
                { "t", "", false },          { "app-x-", ".scope", false },
        };
        Random random = random_start(577);

        for (size_t k = 0; k < ELEMENTSOF(kinds); k++) {
                char name[64], pattern[64], expected[64];

                snprintf(expected, sizeof(expected), "%s*%s", kinds[k].before, kinds[k].after);
                for (size_t round = 0; round < 500; round++) {
                        uint64_t n = random_u64(&random) >> (1 + random_below(&random, 60));

                        if (kinds[k].hex)
                                snprintf(name, sizeof(name), "%s%" PRIx64 "%s", kinds[k].before, n, kinds[k].after);
                        else
                                snprintf(name, sizeof(name), "%s%" PRIu64 "%s", kinds[k].before, n, kinds[k].after);
                        identity_pattern(name, strlen(name), pattern, sizeof(pattern));
                        assert_string_equal(pattern, expected);
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_paths),          cmocka_unit_test(test_long),      cmocka_unit_test(test_patterns),
                cmocka_unit_test(test_pattern_bounds), cmocka_unit_test(test_instances),
        };

        return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
