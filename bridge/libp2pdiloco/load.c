//go:build cgo && !windows

/*
 * What loading the library does to the host process. Go's runtime starts with it, in threads of its own, and
 * two things of it would be felt:
 *
 * Signals. The kernel gives a signal of the process to any thread that does not block it, and a handler that
 * the host installed without SA_ONSTACK, as signal() does, would then run on the stack of a goroutine, a few
 * kilobytes large, and write over what lies below. So Go's threads block all signals that come from outside:
 * they start with the mask of the thread that loads the library, which is full for that moment. The host's
 * signals come to the host's threads, as if there were no others. (Go unblocks SIGCHLD and SIGPROF all the
 * same, whatever the mask; guard.c keeps signals from the host's threads while they are in Go.)
 *
 * SIGPIPE. Go takes it over. Its own threads block it, so the host gets back what it had: a handler, or the
 * default by which `program | head` ends.
 *
 * Both need an order: first() runs before Go's own constructor, because its priority is higher, and last()
 * after it, because the linker puts Go's object first. Should a linker do otherwise the signals are as with any
 * Go library, and the host's mask is its own all the same.
 */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#ifdef __APPLE__
#include <crt_externs.h>
#endif

#include "load.h"

static pid_t loader;
static sigset_t host_mask;
static struct sigaction host_pipe;

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int loaded;
} go = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

/* All but those that a thread brings upon itself, and SIGURG, by which Go interrupts its own threads on signal
 * stacks of their own. */
void p2pdiloco_block(sigset_t *old) {
	static const int own[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP, SIGURG};
	sigset_t all;

	sigfillset(&all);
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		sigdelset(&all, own[i]);
	pthread_sigmask(SIG_BLOCK, &all, old);
}

__attribute__((constructor(101))) static void first(void) {
	loader = getpid();
	sigaction(SIGPIPE, NULL, &host_pipe);
	p2pdiloco_block(&host_mask);
}

/* Waits until Go has installed its handlers, so that it does not do so behind the host's back later. */
__attribute__((constructor)) static void last(void) {
	struct timespec limit;

	pthread_sigmask(SIG_SETMASK, &host_mask, NULL);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 10; /* in vain only if Go's start needs what the loader holds, and then better late than never */
	pthread_mutex_lock(&go.mutex);
	while (!go.loaded && pthread_cond_timedwait(&go.changed, &go.mutex, &limit) != ETIMEDOUT)
		;
	if (go.loaded)
		sigaction(SIGPIPE, &host_pipe, NULL);
	pthread_mutex_unlock(&go.mutex);
}

void p2pdiloco_loaded(void) {
	pthread_mutex_lock(&go.mutex);
	go.loaded = 1;
	pthread_cond_broadcast(&go.changed);
	pthread_mutex_unlock(&go.mutex);
}

void p2pdiloco_complain(const char *text, size_t length) {
	while (length > 0) {
		ssize_t n = write(STDERR_FILENO, text, length);
		if (n < 0 && errno != EINTR)
			return;
		if (n > 0) {
			text += n;
			length -= (size_t)n;
		}
	}
}

char **p2pdiloco_environ(void) {
#ifdef __APPLE__
	return *_NSGetEnviron(); /* libraries there have no environ */
#else
	extern char **environ;

	return environ;
#endif
}

int p2pdiloco_forked(void) {
	return getpid() != loader;
}
