/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* shrinkwatchd: the service. Argv and exit code; everything else is the manager's. */
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>

#include "config.h"
#include "escape.h"
#include "manager.h"

#define SERVICE_USER "shrinkwatch"

static void help(void) {
        puts("Usage: shrinkwatchd [OPTION...]\n"
             "\n"
             "Watches the shrinker memory of memory cgroups: takes a census now and then, sees cgroups come and go,\n"
             "and tells what is beyond the limits of shrinkwatchd.conf(5). Runs in the foreground; systemd's service is\n"
             "shrinkwatchd.service.\n"
             "\n"
             "  -c, --config=FILE    read this file alone, no drop-ins\n"
             "      --check-config   print what is wrong with the configuration, and end: 0 when nothing is\n"
             "      --state=DIR      keep ages, findings and history here (default: $STATE_DIRECTORY, else nowhere)\n"
             "      --once           end after the first census\n"
             "  -h, --help           show this help\n"
             "      --version        show the version");
}

static int printed(void) {
        if (fflush(stdout) == 0)
                return EXIT_SUCCESS;
        fprintf(stderr, "shrinkwatchd: cannot write the output: %s\n", strerror(errno));
        return EXIT_FAILURE;
}

/* A descriptor that is not open would go to the next BPF object, and what is printed would end up there. */
static void occupy_standard_descriptors(void) {
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
                if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDWR) < 0)
                        return;
}

/* As root: the user of the service, where there is one. */
static void become_service_user(void) {
        const struct passwd *user = geteuid() == 0 ? getpwnam(SERVICE_USER) : NULL;

        if (user && (initgroups(user->pw_name, user->pw_gid) < 0 || setegid(user->pw_gid) < 0 || seteuid(user->pw_uid) < 0))
                fprintf(stderr, "shrinkwatchd: cannot look with the eyes of user " SERVICE_USER ": %s\n", strerror(errno));
}

static int check_config(ConfPaths *paths) {
        _cleanup_(conf_freep) ConfResult *conf = NULL;
        int r;

        /* What the service may not read it will not read; a file that was named may be anybody's. */
        if (!paths->file)
                become_service_user();
        paths->memory_bytes = conf_memory_bytes();
        r = conf_load(&conf, paths);
        if (r < 0) {
                fprintf(stderr, "shrinkwatchd: cannot read the configuration: %s\n", strerror(-r));
                return EXIT_FAILURE;
        }
        for (size_t i = 0; i < conf->n_messages; i++) {
                const ConfMessage *m = conf->messages + i;

                _cleanup_(freep) char *file = escape_text(m->file, strlen(m->file), ESCAPE_TERMINAL, NULL);

                if (m->line > 0)
                        fprintf(stderr, "%s:%u: %s\n", file ? file : "", m->line, m->text);
                else
                        fprintf(stderr, "%s: %s\n", file ? file : "", m->text);
        }
        if (conf->n_messages > 0 || conf->failed)
                return EXIT_FAILURE;
        if (conf->n_files == 0)
                puts("There is no file of a configuration: the defaults are in force");
        else
                printf("The configuration is good (%zu file%s read)\n", conf->n_files, PLURAL(conf->n_files));
        return printed();
}

/* systemd gives a list; ours is one directory. */
static const char *first_directory(const char *variable) {
        const char *s = getenv(variable);

        return s && s[0] == '/' && !strchr(s, ':') ? s : NULL;
}

int main(int argc, char *argv[]) {
        enum { ARG_VERSION = 0x100, ARG_CHECK, ARG_STATE, ARG_ONCE };
        static const struct option options[] = {
                { "config",       required_argument, NULL, 'c'         },
                { "check-config", no_argument,       NULL, ARG_CHECK   },
                { "state",        required_argument, NULL, ARG_STATE   },
                { "once",         no_argument,       NULL, ARG_ONCE    },
                { "help",         no_argument,       NULL, 'h'         },
                { "version",      no_argument,       NULL, ARG_VERSION },
                {}
        };
        _cleanup_(manager_freep) Manager *manager = NULL;
        ManagerOptions o = { .paths.root = "" };
        bool check = false;
        int c;

        occupy_standard_descriptors();
        while ((c = getopt_long(argc, argv, "c:h", options, NULL)) >= 0)
                switch (c) {
                case 'c':
                        o.paths.file = optarg;
                        break;
                case ARG_CHECK:
                        check = true;
                        break;
                case ARG_STATE:
                        if (!*optarg) {
                                fprintf(stderr, "shrinkwatchd: --state= wants a directory\n");
                                return 2;
                        }
                        o.state_dir = optarg;
                        break;
                case ARG_ONCE:
                        o.once = true;
                        break;
                case 'h':
                        help();
                        return printed();
                case ARG_VERSION:
                        puts("shrinkwatchd " PACKAGE_VERSION);
                        return printed();
                default:
                        return 2;
                }
        if (optind < argc) {
                fprintf(stderr, "shrinkwatchd: unexpected argument %s. See --help\n", argv[optind]);
                return 2;
        }
        if (check)
                return check_config(&o.paths);

        o.state_asked = o.state_dir;
        if (!o.state_dir)
                o.state_dir = first_directory("STATE_DIRECTORY");
        o.runtime_dir = first_directory("RUNTIME_DIRECTORY");
        if (manager_new(&manager, &o) < 0)
                return EXIT_FAILURE;
        return manager_run(manager) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
