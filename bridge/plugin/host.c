/* The host process: its start, its two threads, and the loop. See host.h. */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the reading thread passes to the main thread, and the state that makes cancel safe. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct request request; /* valid while full */
	char *payload;
	int full;
} mailbox = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct {
	pthread_mutex_t lock;
	uint32_t number; /* of the request that may be cancelled now, 0 for none */
} running = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct host host;

static void die(const char *what)
{
	fprintf(stderr, "p2pdiloco trainer host: %s: %s\n", what, strerror(errno));
	_exit(71);
}

/* The peer has gone, so this process ends, with all that the trainer started. */
static void orphaned(void)
{
	if (getpgrp() == getpid())
		kill(0, SIGKILL);
	_exit(0);
}

static pid_t peer;

/* On Linux the kernel sends SIGTERM when the peer ends, possibly before the reading thread notices, and
 * possibly more than once, because the peer's threads end one by one. A second signal must not have its default
 * effect before the first one was handled. SIGTERM from another process has its default effect. */
static void terminated(int number, siginfo_t *info, void *unused)
{
	(void)unused;
	if (info->si_pid == peer)
		orphaned();
	signal(number, SIG_DFL);
	raise(number);
}

static void watch_peer(void)
{
	struct sigaction action = {.sa_sigaction = terminated, .sa_flags = SA_SIGINFO | SA_RESTART};
	peer = getppid();
	sigaction(SIGTERM, &action, NULL);
}

static void *allocate(void *old, size_t bytes)
{
	void *p = realloc(old, bytes);
	if (p == NULL)
		die("out of memory");
	return p;
}

void buffer_add(struct buffer *b, const void *data, size_t bytes)
{
	if (b->room - b->used < bytes) {
		b->room = 2 * b->room + bytes;
		b->data = allocate(b->data, b->room);
	}
	memcpy(b->data + b->used, data, bytes);
	b->used += bytes;
}

int32_t buffer_refuse(struct buffer *b, const char *format, ...)
{
	char text[1024];
	va_list list;
	va_start(list, format);
	int n = vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	if (n > 0)
		buffer_add(b, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
	b->refused = 1;
	return P2PDILOCO_TRAINER_FAILED;
}

static void read_all(void *data, size_t bytes)
{
	for (char *at = data; bytes > 0;) {
		ssize_t n = read(REQUESTS_FD, at, bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			die("the trainer has closed the pipe from the peer (descriptor 3)");
		if (n == 0)
			orphaned();
		at += n;
		bytes -= (size_t)n;
	}
}

static void write_all(const void *data, size_t bytes)
{
	for (const char *at = data; bytes > 0;) {
		ssize_t n = write(REPLIES_FD, at, bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EPIPE)
			die("the trainer has closed the pipe to the peer (descriptor 4)");
		if (n <= 0)
			orphaned();
		at += n;
		bytes -= (size_t)n;
	}
}

/* Cancels a request if it is the one under way: a late cancel must not end the next request. */
static void cancel(uint32_t number)
{
	pthread_mutex_lock(&running.lock);
	if (number != 0 && running.number == number)
		host.api.cancel(host.trainer);
	pthread_mutex_unlock(&running.lock);
}

static void set_running(uint32_t number)
{
	pthread_mutex_lock(&running.lock);
	running.number = number;
	pthread_mutex_unlock(&running.lock);
}

/* The reading thread. It lives as long as requests may come, so that the peer's end and its cancels are seen
 * while the trainer works, or hangs. */
static void *reading(void *unused)
{
	for (;;) {
		struct request r;
		read_all(&r, sizeof(r));
		char *payload = allocate(NULL, r.bytes + 1);
		read_all(payload, r.bytes);
		payload[r.bytes] = '\0';
		if (r.op == OP_CANCEL) {
			cancel((uint32_t)r.arg[0]);
			free(payload);
			continue;
		}
		pthread_mutex_lock(&mailbox.lock);
		while (mailbox.full)
			pthread_cond_wait(&mailbox.changed, &mailbox.lock);
		mailbox.request = r;
		mailbox.payload = payload;
		mailbox.full = 1;
		pthread_cond_signal(&mailbox.changed);
		pthread_mutex_unlock(&mailbox.lock);
		if (r.op == OP_CLOSE)
			return unused;
	}
}

static struct request next(char **payload)
{
	pthread_mutex_lock(&mailbox.lock);
	while (!mailbox.full)
		pthread_cond_wait(&mailbox.changed, &mailbox.lock);
	struct request r = mailbox.request;
	*payload = mailbox.payload;
	mailbox.full = 0;
	pthread_cond_signal(&mailbox.changed);
	pthread_mutex_unlock(&mailbox.lock);
	return r;
}

static void send_reply(uint32_t number, int32_t code, const void *payload, size_t bytes)
{
	struct reply reply = {REPLY_MAGIC, number, code, (uint32_t)bytes};
	write_all(&reply, sizeof(reply));
	write_all(payload, bytes);
}

void host_progress(uint32_t number, uint64_t exported)
{
	send_reply(number, CODE_PROGRESS, &exported, sizeof(exported));
}

/* Does one request. It replies only when nothing of the request is under way any more. */
static void serve(const struct request *r, char *payload)
{
	struct buffer out = {0};
	int cancellable = r->op == OP_RUN || r->op == OP_EVALUATE;
	if (cancellable)
		set_running(r->number);
	int32_t code = host_call(&host, r, payload, &out);
	if (cancellable)
		set_running(0);
	fflush(stdout);
	send_reply(r->number, out.refused ? CODE_REFUSED : code, out.data, out.used);
	free(out.data);
}

static void run_host(void)
{
	pthread_t reader;
	for (int fd = REQUESTS_FD; fd <= VECTORS_FD; fd++)
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) /* programs that the trainer starts do not get it */
			die("not started by a peer");
	watch_peer();
	setvbuf(stdout, NULL, _IOLBF, 0); /* the last line before a crash matters most */
	errno = pthread_create(&reader, NULL, reading, NULL);
	if (errno != 0)
		die("no thread");
	for (struct request r = {0}; r.op != OP_CLOSE;) {
		char *payload;
		r = next(&payload);
		serve(&r, payload);
		free(payload);
	}
	pthread_join(reader, NULL);
	exit(0);
}

/* Runs before main, and so before the Go runtime has made threads or handled signals: the trainer finds an
 * ordinary C process. */
__attribute__((constructor)) static void p2pdiloco_trainer_host(void)
{
	const char *name = "P2PDILOCO_TRAINER_HOST";
	if (getenv(name) == NULL)
		return;
	unsetenv(name); /* a program that the trainer starts must not become a host */
	run_host();
}
