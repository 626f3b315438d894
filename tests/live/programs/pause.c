/* The sandbox process of every pod the live tests run: it holds the pod's namespaces open and reaps what is
 * re-parented to it when pods share one PID namespace. It is small, static and ours, because a test machine has no
 * registry to take one from. SIGTERM and SIGINT end it with exit code 0. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(int number) {
    (void)number;
    _exit(0);
}

static void reap(int number) {
    (void)number;
    while (waitpid(-1, 0, WNOHANG) > 0) {
    }
}

int main(void) {
    struct sigaction action = {0};
    action.sa_handler = leave;
    sigaction(SIGTERM, &action, 0);
    sigaction(SIGINT, &action, 0);
    action.sa_handler = reap;
    action.sa_flags = SA_RESTART | SA_NOCLDSTOP;
    sigaction(SIGCHLD, &action, 0);
    for (;;)
        pause();
}
