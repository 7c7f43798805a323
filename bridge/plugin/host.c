/* The host process: its start, its end, and the thread that watches. See host.h. */
#include "host.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>

struct host host;

static pid_t peer;

/* The peer has gone, so this process ends, with all that the trainer started. */
void orphaned(void)
{
	if (getpgrp() == getpid())
		kill(0, SIGKILL);
	_exit(0);
}

/* On Linux the kernel sends SIGTERM when the peer ends, possibly more than once, because the peer's threads end one
 * by one. A second signal must not have its default effect before the first one was handled. SIGTERM from another
 * process has its default effect. */
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

/* Says which function of the library is called. Of a call that took too long, the peer wants to know which it was. */
void enter(const char *format, ...)
{
	va_list list;
	if (host.attached.code == P2PA_TIMEOUT)
		return;
	va_start(list, format);
	vsnprintf(host.note->doing, sizeof(host.note->doing), format, list);
	va_end(list);
	host.note->problem[0] = '\0';
}

/* Ends the process because the library cannot be used: the peer reads why in the note. */
void fail(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	vsnprintf(host.note->problem, sizeof(host.note->problem), format, list);
	va_end(list);
	host.failed = 1;
	p2pa_leave(&host.attached, "the trainer library has failed", 0);
	if (host.trainer != NULL)
		host.api.destroy(host.trainer);
	exit(1);
}

const char *reason(p2pdiloco_trainer *trainer)
{
	const char *text = host.api.last_error(trainer);
	return text != NULL && *text != '\0' ? text : "it failed and gives no reason (last_error)";
}

/* Takes what a function of the library returned. */
void must(int32_t code)
{
	if (code == P2PDILOCO_TRAINER_CANCELLED)
		fail("it reports that it was cancelled, but no cancel was sent");
	if (code != P2PDILOCO_TRAINER_OK)
		fail("%s", reason(host.trainer));
}

/* While a run or evaluate is under way, another thread reads the node's messages, so that its CANCEL is seen. */
static struct {
	pthread_mutex_t lock;
	int under_way;
	int cancelled; /* the node wants no answer any more, or is gone */
	int lost;
} watched = {.lock = PTHREAD_MUTEX_INITIALIZER};

void watch_begins(void)
{
	pthread_mutex_lock(&watched.lock);
	watched.under_way = 1;
	watched.cancelled = 0;
	pthread_mutex_unlock(&watched.lock);
}

int watch_ends(void)
{
	pthread_mutex_lock(&watched.lock);
	watched.under_way = 0;
	int cancelled = watched.cancelled;
	pthread_mutex_unlock(&watched.lock);
	return cancelled;
}

int watch_lost(void)
{
	pthread_mutex_lock(&watched.lock);
	int lost = watched.lost;
	pthread_mutex_unlock(&watched.lock);
	return lost;
}

static int readable(int fd, int milliseconds)
{
	struct pollfd p = {fd, POLLIN, 0};
	return poll(&p, 1, milliseconds) > 0; /* a negative fd is none: it only waits */
}

/* Reads what the node says to a run that is under way. A cancel before run has begun is lost: it is repeated. */
static void look(void)
{
	struct p2pa_message m;
	while (!watched.lost && readable(host.attached.fd, 0)) {
		watched.lost = p2pa_receive(&host.attached, &m) != P2PA_OK;
		watched.cancelled |= watched.lost || m.type == P2PA_CANCEL;
	}
	if (watched.cancelled)
		host.api.cancel(host.trainer);
}

static void *watching(void *unused)
{
	for (;;) {
		if (getppid() != peer)
			orphaned();
		pthread_mutex_lock(&watched.lock);
		int fd = watched.under_way && !watched.lost && !watched.cancelled ? host.attached.fd : -1;
		pthread_mutex_unlock(&watched.lock);
		readable(fd, 100);
		pthread_mutex_lock(&watched.lock);
		if (watched.under_way) /* else the main thread reads */
			look();
		pthread_mutex_unlock(&watched.lock);
	}
	return unused;
}

static void die(const char *what)
{
	fprintf(stderr, "p2pdiloco trainer host: %s: %s\n", what, strerror(errno));
	_exit(71);
}

static struct note *map_note(void)
{
	struct stat about;
	if (fstat(NOTE_FD, &about) != 0 || (size_t)about.st_size <= sizeof(struct note))
		die("not started by a peer");
	void *note = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, NOTE_FD, 0);
	if (note == MAP_FAILED)
		die("no memory");
	close(NOTE_FD);
	return note;
}

static void run_host(void)
{
	pthread_t watcher;
	watch_peer();
	host.note = map_note();
	const char *library = host.note->texts, *config = library + strlen(library) + 1;
	const char *data_dir = config + strlen(config) + 1, *socket = data_dir + strlen(data_dir) + 1;
	setvbuf(stdout, NULL, _IOLBF, 0); /* the last line before a crash matters most */
	errno = pthread_create(&watcher, NULL, watching, NULL);
	if (errno != 0)
		die("no thread");
	library_load(library);
	library_create(config, data_dir);
	attach(socket);
	serve();
	enter("destroy");
	host.api.destroy(host.trainer);
	host.trainer = NULL; /* it can no longer be freed */
	pthread_cancel(watcher);
	pthread_join(watcher, NULL);
	exit(0); /* the library stays loaded, so that reports of leaks have the names of its functions */
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
