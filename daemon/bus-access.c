/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who may ask for what, and how much of it. Dear methods ask polkit. Everything else is open to everybody, and so each user has an account of CPU
 * time, which the answering of messages, whatever they ask for, takes from: one who is out of it gets errors for a while.
 */
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <time.h>

#include "bus-internal.h"

#define CLIENTS_MAX 256U
/* Requests that wait for polkit, in all and of one user. */
#define REQUESTS_MAX 64U
#define REQUESTS_PER_USER 8U
/* Somebody may have to type a password. */
#define POLKIT_USEC (120 * 1000000ULL)
/* What polkit says of an action that is not installed where it looks. */
#define POLKIT_ERROR_FAILED "org.freedesktop.PolicyKit1.Error.Failed"
#define GROUP "shrinkwatch"
#define GROUPS_MAX 4096

/* An account: so much at most, which so much time fills again by a twentieth of it. */
#define ACCOUNT_USEC 2000000ULL
#define ACCOUNT_SHARE 20U

struct BusClient {
        char *name; /* unique on this bus, and never given again */
        uid_t uid;
        BusClient *next;
};

struct BusRequest {
        Bus *bus;
        sd_bus_message *message;
        sd_bus_slot *slot;
        bus_then_t then;
        uid_t uid;
        BusRequest *next;
};

static uint64_t now_usec(clockid_t id) {
        struct timespec ts = {};

        (void)clock_gettime(id, &ts);
        return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* ------------------------------------------------------------------------------------------------------------- clients */

static BusClient *client_free(BusClient *c) {
        if (!c)
                return NULL;
        free(c->name);
        free(c);
        return NULL;
}

/* The first of the list is the last used; the last one makes room. */
static BusClient *find_client(Bus *b, const char *name) {
        BusClient **link = &b->clients, *c;

        for (; *link; link = &(*link)->next)
                if (strcmp((*link)->name, name) == 0)
                        break;
        if (!*link)
                return NULL;
        c = *link;
        *link = c->next;
        c->next = b->clients;
        b->clients = c;
        return c;
}

static BusClient *add_client(Bus *b, const char *name, uid_t uid) {
        BusClient *c = calloc(1, sizeof(*c)), **link;
        size_t n = 1;

        if (c)
                c->name = strdup(name);
        if (!c || !c->name)
                return client_free(c);
        c->uid = uid;
        c->next = b->clients;
        b->clients = c;
        for (link = &c->next; *link && n < CLIENTS_MAX; link = &(*link)->next)
                n++;
        if (*link)
                *link = client_free(*link);
        return c;
}

uid_t bus_uid_of(Bus *b, const char *name) {
        const BusClient *c = find_client(b, name);

        return c ? c->uid : (uid_t)-1;
}

int bus_sender(Bus *b, sd_bus_message *m, uid_t *ret) {
        const char *name = sd_bus_message_get_sender(m);
        sd_bus_creds *creds = NULL;
        BusClient *c;
        uid_t uid;
        int r;

        if (!name)
                return -EBADMSG;
        c = find_client(b, name);
        if (c) {
                *ret = c->uid;
                return 0;
        }
        /* The bus knows: /proc is not asked, which the service may not see. */
        r = sd_bus_query_sender_creds(m, SD_BUS_CREDS_EUID, &creds);
        if (r >= 0)
                r = sd_bus_creds_get_euid(creds, &uid);
        sd_bus_creds_unref(creds);
        if (r < 0)
                return r;
        if (!add_client(b, name, uid))
                return -ENOMEM;
        *ret = uid;
        return 0;
}

/* ------------------------------------------------------------------------------------------------------------ accounts */

/* A user's, whatever number of connections there are to it. The one with least on it makes room: it has least to lose. */
static BusAccount *find_account(Bus *b, uid_t uid) {
        BusAccount *least = b->accounts;

        for (size_t i = 0; i < b->n_accounts; i++) {
                if (b->accounts[i].uid == uid)
                        return b->accounts + i;
                if (b->accounts[i].spent_usec < least->spent_usec)
                        least = b->accounts + i;
        }
        if (b->n_accounts < ELEMENTSOF(b->accounts))
                least = b->accounts + b->n_accounts++;
        *least = (BusAccount){ .uid = uid, .at_usec = now_usec(CLOCK_MONOTONIC) };
        return least;
}

static void refill(BusAccount *account, uint64_t now) {
        uint64_t filled = (now - account->at_usec) / ACCOUNT_SHARE;

        account->spent_usec = account->spent_usec > filled ? account->spent_usec - filled : 0;
        account->at_usec = now;
}

/* What the message before this one took. */
static void settle(Bus *b) {
        uint64_t used = now_usec(CLOCK_PROCESS_CPUTIME_ID) - b->serving_since;
        BusAccount *account;

        if (b->serving == (uid_t)-1)
                return;
        account = find_account(b, b->serving);
        b->serving = (uid_t)-1;
        refill(account, now_usec(CLOCK_MONOTONIC));
        account->spent_usec = add_sat_u64(account->spent_usec, used);
}

static int on_post(_unused_ sd_event_source *source, void *userdata) {
        settle(userdata);
        return 0;
}

/* Sees each message before anything else does. */
static int on_message(sd_bus_message *m, void *userdata, _unused_ sd_bus_error *ret_error) {
        Bus *b = userdata;
        BusAccount *account;
        uid_t uid;
        uint8_t type;

        settle(b);
        if (sd_bus_message_get_type(m, &type) < 0 || type != SD_BUS_MESSAGE_METHOD_CALL)
                return 0;
        b->serving_since = now_usec(CLOCK_PROCESS_CPUTIME_ID);
        /* Gone already, or out of memory: it is answered, by whatever answers. */
        if (bus_sender(b, m, &uid) < 0)
                return 0;
        b->serving = uid;
        if (uid == 0)
                return 0;
        account = find_account(b, uid);
        refill(account, now_usec(CLOCK_MONOTONIC));
        if (account->spent_usec < ACCOUNT_USEC)
                return 0;
        (void)sd_bus_reply_method_errorf(m, SD_BUS_ERROR_LIMITS_EXCEEDED,
                                         "This user has had more answers than %u %% of one CPU can give: ask again in some seconds, and less often", 100 / ACCOUNT_SHARE);
        return 1;
}

/* -------------------------------------------------------------------------------------------------------------- polkit */

static BusRequest *request_free(BusRequest *q) {
        if (!q)
                return NULL;
        for (BusRequest **link = &q->bus->requests; *link; link = &(*link)->next)
                if (*link == q) {
                        *link = q->next;
                        q->bus->n_requests--;
                        break;
                }
        sd_bus_slot_unref(q->slot);
        sd_bus_message_unref(q->message);
        free(q);
        return NULL;
}

static size_t count_requests(const Bus *b, uid_t uid) {
        size_t n = 0;

        for (const BusRequest *q = b->requests; q; q = q->next)
                n += q->uid == uid;
        return n;
}

/* Whether this user is in the group; who cannot be looked up is not. */
static bool is_in_group(uid_t uid) {
        _cleanup_(freep) gid_t *gids = NULL;
        const struct group *group = getgrnam(GROUP);
        const struct passwd *user;
        int n = GROUPS_MAX;
        gid_t wanted;

        if (!group)
                return false;
        wanted = group->gr_gid;
        user = getpwuid(uid);
        gids = user ? calloc((size_t)n, sizeof(*gids)) : NULL;
        if (!gids || getgrouplist(user->pw_name, user->pw_gid, gids, &n) < 0)
                return false;
        for (int i = 0; i < n; i++)
                if (gids[i] == wanted)
                        return true;
        return false;
}

static void go_on(Bus *b, sd_bus_message *m, bus_then_t then) {
        int r = then(b, m);

        if (r < 0)
                (void)sd_bus_reply_method_errno(m, r, NULL);
}

static void refuse(sd_bus_message *m, bool challenge) {
        if (challenge)
                (void)sd_bus_reply_method_errorf(m, SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED, "Interactive authentication is needed for this");
        else
                (void)sd_bus_reply_method_errorf(m, SD_BUS_ERROR_ACCESS_DENIED, "This is for root, for the group " GROUP ", or for whom polkit allows it");
}

static int on_polkit(sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *ret_error) {
        const sd_bus_error *error = sd_bus_message_get_error(reply);
        BusRequest *q = userdata;
        sd_bus_message *m = sd_bus_message_ref(q->message);
        int authorized = false, challenge = false;
        bus_then_t then = q->then;
        uid_t uid = q->uid;
        Bus *b = q->bus;

        request_free(q);
        if (!error) {
                if (sd_bus_message_enter_container(reply, 'r', "bba{ss}") < 0 || sd_bus_message_read_basic(reply, 'b', &authorized) < 0 ||
                    sd_bus_message_read_basic(reply, 'b', &challenge) < 0)
                        authorized = challenge = false;
        } else if (sd_bus_error_has_name(error, SD_BUS_ERROR_SERVICE_UNKNOWN) || sd_bus_error_has_name(error, SD_BUS_ERROR_NAME_HAS_NO_OWNER) ||
                   sd_bus_error_has_name(error, POLKIT_ERROR_FAILED))
                authorized = is_in_group(uid); /* there is no polkit here, or it has not heard of our actions */

        b->serving = uid;
        b->serving_since = now_usec(CLOCK_PROCESS_CPUTIME_ID);
        if (authorized)
                go_on(b, m, then);
        else
                refuse(m, challenge);
        sd_bus_message_unref(m);
        return 0;
}

/* CheckAuthorization((sa{sv}) subject, s action, a{ss} details, u flags, s cancellation) */
static int ask_polkit(Bus *b, BusRequest *q, const char *action) {
        sd_bus_message *call = NULL;
        int r;

        r = sd_bus_message_new_method_call(b->bus, &call, "org.freedesktop.PolicyKit1", "/org/freedesktop/PolicyKit1/Authority",
                                           "org.freedesktop.PolicyKit1.Authority", "CheckAuthorization");
        if (r >= 0)
                r = sd_bus_message_append(call, "(sa{sv})sa{ss}us", "system-bus-name", 1, "name", "s", sd_bus_message_get_sender(q->message), action, 0,
                                          sd_bus_message_get_allow_interactive_authorization(q->message) > 0 ? 1U : 0U, "");
        if (r >= 0)
                r = sd_bus_call_async(b->bus, &q->slot, call, on_polkit, q, POLKIT_USEC);
        sd_bus_message_unref(call);
        return r;
}

int bus_access(Bus *b, sd_bus_message *m, const char *action, bus_then_t then, sd_bus_error *error) {
        BusRequest *q;
        uid_t uid;
        int r;

        r = bus_sender(b, m, &uid);
        if (r < 0)
                return r;
        if (uid == 0) {
                go_on(b, m, then);
                return 1;
        }
        if (b->n_requests >= REQUESTS_MAX || count_requests(b, uid) >= REQUESTS_PER_USER)
                return sd_bus_error_setf(error, SD_BUS_ERROR_LIMITS_EXCEEDED, "Too many requests wait for an authorization: answer or cancel some");
        q = calloc(1, sizeof(*q));
        if (!q)
                return -ENOMEM;
        *q = (BusRequest){ .bus = b, .message = sd_bus_message_ref(m), .then = then, .uid = uid, .next = b->requests };
        b->requests = q;
        b->n_requests++;
        r = ask_polkit(b, q, action);
        if (r < 0) {
                request_free(q);
                return r;
        }
        return 1;
}

/* ---------------------------------------------------------------------------------------------------------- connection */

int bus_access_begin(Bus *b) {
        int r = sd_bus_add_filter(b->bus, NULL, on_message, b);

        if (r >= 0)
                r = sd_event_add_post(b->event, &b->post, on_post, b);
        /* Before anything else that takes time. */
        return r < 0 ? r : sd_event_source_set_priority(b->post, SD_EVENT_PRIORITY_IMPORTANT);
}

void bus_access_end(Bus *b) {
        b->post = sd_event_source_disable_unref(b->post);
        b->serving = (uid_t)-1;
        while (b->requests)
                request_free(b->requests);
        while (b->clients) {
                BusClient *c = b->clients;

                b->clients = c->next;
                client_free(c);
        }
}
