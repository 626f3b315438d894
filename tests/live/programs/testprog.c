/* What runs inside the containers of the live tests: one small static program whose first argument says how to behave.
 *
 *   serve PORT [ROOT]        HTTP/1.1 server; see below. Ends with 0 on SIGTERM.
 *   get ADDRESS PORT [PATH]  HTTP GET, the body to standard output; exit 0 for a 2xx or 3xx answer, 1 otherwise.
 *   echo PORT                TCP server that sends back what it receives.
 *   say ADDRESS PORT TEXT    sends TEXT to a TCP server, prints what comes back until as many bytes came; exit 0 then.
 *   exit CODE [AFTER_MS]     waits, then exits with CODE.
 *   trap [LINGER_MS]         prints the name of each SIGTERM it gets; LINGER_MS after the first it exits with 0.
 *   stubborn                 ignores SIGTERM, so that only SIGKILL ends it.
 *   eat MIB                  takes that much memory and touches it, a MiB at a time, says so, then waits for a signal.
 *   tick EVERY_MS            prints "tick N" forever, for logs.
 *   kill NUMBER              ends itself by that signal.
 *
 * A role that says nothing about SIGTERM ends with 143 on it.
 *
 * The server answers `/` (or a file below ROOT, when it was given one) with who it is, `/healthz` with 200,
 * `/status/N` with that status, `/env/NAME` with an environment variable, `/delay/MS` late, and `/exit/N` by exiting.
 * `/break` makes `/healthz` answer 500 from then on and `/mend` undoes it, for probes. Addresses are numeric: a static
 * C library cannot look names up, which is also why busybox's own wget is of no use here. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int *broken; /* shared by the server and its children */

static void fail(const char *what) {
    fprintf(stderr, "testprog: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void wait_ms(long milliseconds) {
    struct timespec left = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
    while (nanosleep(&left, &left) == -1 && errno == EINTR) {
    }
}

static void say_line(const char *text) {
    printf("%s\n", text);
    fflush(stdout);
}

static int listen_on(int port) {
    int one = 1, zero = 0, listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (listener >= 0) {
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
        if (bind(listener, (struct sockaddr *)&any6, sizeof any6) == 0 && listen(listener, 128) == 0)
            return listener;
        close(listener); /* a kernel without IPv6 addresses: the other family will do */
    }
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0)
        fail("socket");
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&any4, sizeof any4) || listen(listener, 128))
        fail("listen");
    return listener;
}

static int connect_to(const char *address, int port) {
    struct sockaddr_in to4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 to6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct timeval patience = {10, 0};
    struct sockaddr *to = (struct sockaddr *)&to4;
    socklen_t size = sizeof to4;
    int family = AF_INET, connection;
    if (inet_pton(AF_INET, address, &to4.sin_addr) != 1) {
        if (inet_pton(AF_INET6, address, &to6.sin6_addr) != 1) {
            fprintf(stderr, "testprog: %s is not a numeric address\n", address);
            exit(2);
        }
        to = (struct sockaddr *)&to6, size = sizeof to6, family = AF_INET6;
    }
    connection = socket(family, SOCK_STREAM, 0);
    if (connection < 0)
        fail("socket");
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(connection, to, size))
        fail("connect");
    return connection;
}

static void send_all(int to, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t sent = send(to, bytes, count, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* the other side went away; nobody is left to tell */
        bytes += sent, count -= (size_t)sent;
    }
}

static void answer(int client, int status, const char *body, size_t size) {
    char head[160];
    int length = snprintf(head, sizeof head,
                          "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                          status, status < 400 ? "OK" : "Not OK", size);
    send_all(client, head, (size_t)length);
    send_all(client, body, size);
}

static void answer_file(int client, const char *root, const char *path) {
    static char body[1 << 16];
    char name[4096];
    ssize_t size;
    int file;
    snprintf(name, sizeof name, "%s%s%s", root, path, path[strlen(path) - 1] == '/' ? "index.html" : "");
    file = strstr(path, "..") ? -1 : open(name, O_RDONLY);
    size = file < 0 ? -1 : read(file, body, sizeof body);
    if (size < 0)
        answer(client, 404, "no such file\n", 13);
    else
        answer(client, 200, body, (size_t)size);
}

static void answer_identity(int client) {
    char body[256], host[128] = "";
    gethostname(host, sizeof host - 1);
    answer(client, 200, body, (size_t)snprintf(body, sizeof body, "testprog on %s\n", host));
}

static void answer_request(int client, const char *root, const char *path) {
    if (!strcmp(path, "/healthz"))
        *broken ? answer(client, 500, "broken\n", 7) : answer(client, 200, "ok\n", 3);
    else if (!strcmp(path, "/break") || !strcmp(path, "/mend"))
        *broken = path[1] == 'b', answer(client, 200, "done\n", 5);
    else if (!strncmp(path, "/status/", 8))
        answer(client, atoi(path + 8), "as asked\n", 9);
    else if (!strncmp(path, "/delay/", 7))
        wait_ms(atol(path + 7)), answer(client, 200, "late\n", 5);
    else if (!strncmp(path, "/env/", 5)) {
        const char *value = getenv(path + 5);
        answer(client, value ? 200 : 404, value ? value : "", value ? strlen(value) : 0);
    } else if (!strncmp(path, "/exit/", 6)) {
        answer(client, 200, "goodbye\n", 8);
        close(client);
        exit(atoi(path + 6));
    } else if (root)
        answer_file(client, root, path);
    else
        answer_identity(client);
}

static void leave(int number) {
    (void)number;
    _exit(0);
}

/* Process 1 of a PID namespace has no default for a signal: without a handler SIGTERM would not end it. */
static void die(int number) {
    _exit(128 + number);
}

/* One request after the other, except those that mean to be slow, which get a child so that probes still pass. */
static int serve(int port, const char *root) {
    static volatile int state;
    int listener = listen_on(port);
    struct timeval patience = {5, 0};
    broken = &state;
    signal(SIGTERM, leave);
    signal(SIGINT, leave);
    signal(SIGCHLD, SIG_IGN);
    printf("serving on port %d\n", port);
    fflush(stdout);
    for (;;) {
        char request[4096], path[1024] = "/";
        int client = accept(listener, NULL, NULL);
        ssize_t size;
        if (client < 0)
            continue;
        setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        size = recv(client, request, sizeof request - 1, 0);
        if (size > 0) {
            request[size] = 0;
            sscanf(request, "%*15s %1023[^ ?\r\n]", path);
            if (strncmp(path, "/delay/", 7) || fork() == 0) {
                answer_request(client, root, path);
                if (!strncmp(path, "/delay/", 7))
                    _exit(0);
            }
        }
        shutdown(client, SHUT_WR);
        close(client);
    }
}

static int get(const char *address, int port, const char *path) {
    char text[4096], *body = NULL;
    int status = 0, connection = connect_to(address, port);
    ssize_t size, kept = 0;
    int length = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, address);
    send_all(connection, text, (size_t)length);
    while (body == NULL && (size = recv(connection, text + kept, sizeof text - 1 - (size_t)kept, 0)) > 0) {
        kept += size;
        text[kept] = 0;
        body = strstr(text, "\r\n\r\n");
    }
    if (body == NULL || sscanf(text, "HTTP/%*s %d", &status) != 1) {
        fprintf(stderr, "testprog: no HTTP answer\n");
        return 1;
    }
    body += 4;
    fwrite(body, 1, (size_t)(text + kept - body), stdout);
    while ((size = recv(connection, text, sizeof text, 0)) > 0)
        fwrite(text, 1, (size_t)size, stdout);
    fflush(stdout);
    return status >= 200 && status < 400 ? 0 : 1;
}

static int echo(int port) {
    int listener = listen_on(port);
    signal(SIGTERM, leave);
    signal(SIGCHLD, SIG_IGN);
    say_line("echoing");
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (client >= 0 && fork() == 0) {
            char bytes[4096];
            ssize_t size;
            while ((size = recv(client, bytes, sizeof bytes, 0)) > 0)
                send_all(client, bytes, (size_t)size);
            _exit(0);
        }
        if (client >= 0)
            close(client);
    }
}

static int say(const char *address, int port, const char *text) {
    int connection = connect_to(address, port);
    size_t wanted = strlen(text), came = 0;
    char bytes[4096];
    send_all(connection, text, wanted);
    while (came < wanted) {
        ssize_t size = recv(connection, bytes, sizeof bytes, 0);
        if (size <= 0)
            return 1;
        fwrite(bytes, 1, (size_t)size, stdout);
        came += (size_t)size;
    }
    say_line("");
    return 0;
}

static volatile sig_atomic_t terms;

static void count_term(int number) {
    static const char text[] = "SIGTERM\n";
    (void)number;
    terms++;
    if (write(1, text, sizeof text - 1) < 0)
        _exit(3);
}

static int trap(long linger_ms) {
    struct sigaction action = {0};
    sigset_t term, before;
    action.sa_handler = count_term;
    sigaction(SIGTERM, &action, NULL);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &before); /* so that no signal falls between the test and the wait */
    say_line("waiting");
    while (!terms)
        sigsuspend(&before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    wait_ms(linger_ms);
    return 0;
}

static void stubborn(void) {
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    say_line("waiting");
    for (;;)
        pause();
}

static int eat(long mib) {
    for (long taken = 0; taken < mib; taken++) {
        char *block = malloc(1 << 20);
        if (block == NULL)
            fail("malloc");
        memset(block, 1 + (int)(taken % 255), 1 << 20);
    }
    printf("ate %ld MiB\n", mib);
    fflush(stdout);
    pause();
    return 0;
}

static void tick(long every_ms) {
    for (long number = 1;; number++) {
        printf("tick %ld\n", number);
        fflush(stdout);
        wait_ms(every_ms);
    }
}

int main(int count, char **words) {
    const char *role = count > 1 ? words[1] : "";
    long number = count > 2 ? atol(words[2]) : 0;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, die);
    signal(SIGINT, die);
    if (!strcmp(role, "serve") && count >= 3)
        return serve((int)number, count > 3 ? words[3] : NULL);
    if (!strcmp(role, "get") && count >= 4)
        return get(words[2], atoi(words[3]), count > 4 ? words[4] : "/");
    if (!strcmp(role, "echo") && count == 3)
        return echo((int)number);
    if (!strcmp(role, "say") && count == 5)
        return say(words[2], atoi(words[3]), words[4]);
    if (!strcmp(role, "exit") && count >= 3)
        return wait_ms(count > 3 ? atol(words[3]) : 0), (int)number;
    if (!strcmp(role, "trap"))
        return trap(number);
    if (!strcmp(role, "stubborn"))
        stubborn();
    if (!strcmp(role, "eat") && count == 3)
        return eat(number);
    if (!strcmp(role, "tick") && count == 3)
        tick(number);
    if (!strcmp(role, "kill") && count == 3) {
        signal((int)number, SIG_DFL);
        return raise((int)number); /* as process 1 of a PID namespace only SIGKILL from outside works: then we return */
    }
    fprintf(stderr, "testprog: what is \"%s\"? The roles are listed at the top of testprog.c\n", role);
    return 2;
}
