/* A host that has its handlers before it loads the library, by dlopen: they stay, and come to it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include "test.h"

static sigjmp_buf back;
static volatile sig_atomic_t counted[65];

static void count(int signal) {
	counted[signal]++;
}

static void crashed(int signal) {
	counted[signal]++;
	siglongjmp(back, 1);
}

int main(int argc, char **argv) {
	static const int mine[] = {SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM};
	struct sigaction before[65], after;
	sigset_t mask, same;
	int ends[2];

	if (argc != 2)
		return 2;
	for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
		signal(mine[i], count);
	signal(SIGSEGV, crashed);
	signal(SIGQUIT, SIG_IGN);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	for (int s = 1; s < 32; s++)
		sigaction(s, NULL, &before[s]);

	void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	pthread_sigmask(SIG_SETMASK, NULL, &same);
	for (int s = 1; s < 32; s++) {
		CHECK(sigismember(&same, s) == sigismember(&mask, s));
		/* Those that a thread brings upon itself go through Go, and SIGURG is how it interrupts its own threads. */
		if (s == SIGSEGV || s == SIGBUS || s == SIGFPE || s == SIGILL || s == SIGTRAP || s == SIGABRT || s == SIGSYS || s == SIGURG)
			continue;
		sigaction(s, NULL, &after);
		if (after.sa_handler != before[s].sa_handler) {
			fprintf(stderr, "signal %d has another handler\n", s);
			failures++;
		}
	}

	uint32_t (*abi)(void) = (uint32_t (*)(void))dlsym(library, "p2pdiloco_abi");
	int32_t (*close_node)(p2pdiloco_node, char **) = (int32_t (*)(p2pdiloco_node, char **))dlsym(library, "p2pdiloco_close");
	CHECK(abi && abi() == P2PDILOCO_ABI);
	CHECK(close_node && close_node(1, NULL) == P2PDILOCO_OK); /* this thread has been in Go */
	CHECK(!dlsym(library, "p2pdilocoGoJoin") && !dlsym(library, "p2pdiloco_forked"));

	for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) {
		kill(getpid(), mine[i]);
		CHECK(counted[mine[i]] == 1);
	}
	if (pipe(ends))
		return 1;
	close(ends[0]);
	CHECK(write(ends[1], "x", 1) == -1 && errno == EPIPE && counted[SIGPIPE] == 2);
	if (sigsetjmp(back, 1) == 0)
		*(volatile int *)8 = 1;
	CHECK(counted[SIGSEGV] == 1);
	passed("a library that comes late");
	dlclose(library); /* which does nothing: Go cannot be unloaded */
	CHECK(close_node(1, NULL) == P2PDILOCO_OK);
	passed("and stays");
	return failures != 0;
}
