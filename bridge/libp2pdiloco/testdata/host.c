/* The host process: its signals, its standard streams, its children. Here it loads the library at its start,
 * and installs its handlers after that, by signal(), which asks for no signal stack; late.c does it the other
 * way round. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

#define D 2000000 /* so many that the arithmetic takes a while */

static float params[D];

/* The threads that are not this program's block what the kernel might otherwise give them. */
static void other_threads(void) {
	const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGWINCH, SIGIO};
	int others = 0;
	struct dirent *task;
	DIR *tasks = opendir("/proc/self/task");

	CHECK(tasks);
	while (tasks && (task = readdir(tasks))) {
		char path[300], line[256];
		unsigned long long blocked = 0;
		if (atoi(task->d_name) == 0 || atoi(task->d_name) == getpid())
			continue;
		snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
		FILE *status = fopen(path, "r");
		if (!status)
			continue; /* it has ended */
		while (fgets(line, sizeof line, status))
			sscanf(line, "SigBlk: %llx", &blocked);
		fclose(status);
		others++;
		for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
			CHECK(blocked >> (signals[i] - 1) & 1);
	}
	closedir(tasks);
	CHECK(others > 2);
	sigset_t mine;
	pthread_sigmask(SIG_SETMASK, NULL, &mine);
	for (int s = 1; s < 32; s++)
		CHECK(!sigismember(&mine, s));
	passed("other threads");
}

static atomic_int interrupts, stop;

static void interrupted(int signal) {
	volatile char deep[4096]; /* more than a goroutine's stack has to spare */

	for (size_t i = 0; i < sizeof deep; i++)
		deep[i] = (char)signal;
	interrupts++;
}

static void *interrupt(void *unused) {
	const struct timespec pause = {0, 20000};
	sigset_t sigint;

	sigemptyset(&sigint);
	sigaddset(&sigint, SIGINT);
	pthread_sigmask(SIG_BLOCK, &sigint, NULL); /* they are for the main thread */
	while (!stop) {
		kill(getpid(), SIGINT);
		nanosleep(&pause, NULL);
	}
	return unused;
}

/* Thousands of SIGINTs while the main thread is in calls: its handler runs each time, and the rounds go on. */
static void interrupts_in_calls(void) {
	pthread_t thread;
	int rounds = 0, code;
	p2pdiloco_node node = join_alone("signals", D, ", \"rounds\": 12");

	signal(SIGINT, interrupted);
	pthread_create(&thread, NULL, interrupt, NULL);
	EXPECT(P2PDILOCO_OK, p2pdiloco_anchor(node, params, D, -1, NULL, &error));
	do {
		for (int i = 0; i < D; i++)
			params[i] += 0.5f;
		rounds++;
	} while ((code = p2pdiloco_sync(node, params, D, 1, NULL)) == P2PDILOCO_OK);
	for (int i = 0; i < 20000; i++) {
		CHECK(p2pdiloco_progress(node, (uint64_t)i) == P2PDILOCO_OK);
		CHECK(p2pdiloco_poll(node, 0, NULL) == P2PDILOCO_INVALID);
	}
	stop = 1;
	pthread_join(thread, NULL);
	CHECK(code == P2PDILOCO_ENDED && rounds == 12 && params[0] == 6 && params[D - 1] == 6);
	CHECK(interrupts > 1000);
	EXPECT(P2PDILOCO_OK, p2pdiloco_close(node, &error));
	passed("interrupts in calls");
}

static sigjmp_buf back;
static atomic_int pipes;

static void crashed(int signal) {
	siglongjmp(back, signal);
}

static void piped(int signal) {
	(void)signal;
	pipes++;
}

static int broken_pipe(void) {
	int ends[2];

	if (pipe(ends))
		abort();
	close(ends[0]);
	return ends[1];
}

static void own_handlers(void) {
	int fd = broken_pipe();

	signal(SIGSEGV, crashed);
	if (sigsetjmp(back, 1) == 0) {
		*(volatile int *)8 = 1;
		CHECK(!"reached");
	}
	signal(SIGSEGV, SIG_DFL);
	signal(SIGPIPE, piped);
	CHECK(write(fd, "x", 1) == -1 && errno == EPIPE && pipes == 1);
	close(fd);
	p2pdiloco_node node = join_alone("after", 4, ", \"rounds\": 1");
	EXPECT(P2PDILOCO_OK, p2pdiloco_anchor(node, params, 4, -1, NULL, &error));
	EXPECT(P2PDILOCO_ENDED, p2pdiloco_sync(node, params, 4, 1, &error));
	EXPECT(P2PDILOCO_OK, p2pdiloco_leave(node, -1, &error));
	CHECK(pipes == 1); /* connections that broke were the library's own affair */
	signal(SIGPIPE, SIG_DFL);
	passed("own handlers");
}

/* What a child does in a process of its own, by name. */
static int child(const char *what) {
	p2pdiloco_node node = join_alone("child", 4, strcmp(what, "chatty") ? "" : ", \"log_level\": \"debug\"");

	if (!strcmp(what, "chatty")) { /* its standard error is broken; that costs it no more than the words */
		EXPECT(P2PDILOCO_OK, p2pdiloco_anchor(node, params, 4, -1, NULL, &error));
		EXPECT(P2PDILOCO_OK, p2pdiloco_leave(node, -1, &error));
		return failures;
	}
	while (p2pdiloco_anchor(node, params, 4, 100, NULL, NULL) != P2PDILOCO_AGAIN)
		;
	if (!strcmp(what, "pipe"))
		return write(broken_pipe(), "x", 1) != -1;
	if (!strcmp(what, "crash"))
		*(volatile int *)8 = 1;
	if (!strcmp(what, "interrupt"))
		kill(getpid(), SIGINT);
	return 0; /* "exit": with a node that is open */
}

/* Without handlers of its own a host ends as ever. */
static void defaults(void) {
	static const struct {
		const char *what;
		int signal;
	} cases[] = {{"pipe", SIGPIPE}, {"crash", SIGSEGV}, {"interrupt", SIGINT}, {"exit", 0}, {"chatty", 0}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int status = 0, fd = broken_pipe();
		pid_t pid = fork();
		if (pid == 0) {
			alarm(60);
			if (!strcmp(cases[i].what, "chatty"))
				dup2(fd, STDERR_FILENO);
			execl("/proc/self/exe", "host", cases[i].what, (char *)NULL);
			_exit(99);
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		if (cases[i].signal ? !WIFSIGNALED(status) || WTERMSIG(status) != cases[i].signal : status != 0) {
			fprintf(stderr, "%s ended with status %x\n", cases[i].what, (unsigned)status);
			failures++;
		}
		close(fd);
	}
	passed("defaults");
}

static int every_function_in_a_child(p2pdiloco_node node) {
	char *event = (char *)"untouched";
	float few[4];
	uint64_t slot;
	p2pdiloco_node another;

	EXPECT(P2PDILOCO_FORKED, p2pdiloco_join("{\"run\": \"x\"}", NULL, 0, &another, &error));
	EXPECT(P2PDILOCO_FORKED, p2pdiloco_anchor(node, few, 4, -1, &slot, &error));
	EXPECT(P2PDILOCO_FORKED, p2pdiloco_sync(node, few, 4, 1, &error));
	EXPECT(P2PDILOCO_FORKED, p2pdiloco_begin(node, few, 4, 1, &error));
	EXPECT(P2PDILOCO_FORKED, p2pdiloco_poll(node, -1, &error));
	EXPECT(P2PDILOCO_FORKED, p2pdiloco_finish(node, few, 4, -1, &slot, &error));
	EXPECT(P2PDILOCO_FORKED, p2pdiloco_leave(node, -1, &error));
	EXPECT(P2PDILOCO_FORKED, p2pdiloco_close(node, &error));
	CHECK(p2pdiloco_progress(node, 1) == P2PDILOCO_FORKED);
	CHECK(p2pdiloco_event(node, -1, &event) == P2PDILOCO_FORKED && event == NULL);
	CHECK(p2pdiloco_status(node) == NULL);
	CHECK(p2pdiloco_abi() == P2PDILOCO_ABI && *p2pdiloco_version());
	return failures;
}

static void *wait_in_anchor(void *node) {
	float few[4];

	EXPECT(P2PDILOCO_CLOSED, p2pdiloco_anchor(*(p2pdiloco_node *)node, few, 4, -1, NULL, &error));
	return NULL;
}

/* A child by fork, while threads of the parent are in calls: no call of it hangs, it ends in the usual way, and
 * the parent goes on. */
static void children(void) {
	pthread_t thread;
	p2pdiloco_node node = join_alone("parent", 4, ""), lonely = join_alone("lonely", 4, ","
		" \"bootstrap\": [\"/ip4/127.0.0.1/tcp/1/p2p/12D3KooWACygP9oMSofzDEwcvkYovGaDAbvHwQWs2qTDGUgomGbJ\"]");

	EXPECT(P2PDILOCO_OK, p2pdiloco_anchor(node, params, 4, -1, NULL, &error));
	pthread_create(&thread, NULL, wait_in_anchor, &lonely);
	for (int i = 0; i < 20 && !failures; i++) {
		int status = 0;
		pid_t pid = fork();
		if (pid == 0) {
			alarm(10); /* a process that hangs is killed */
			fclose(stdout); /* with what the parent has written to it */
			exit(every_function_in_a_child(node));
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	EXPECT(P2PDILOCO_OK, p2pdiloco_sync(node, params, 4, 1, &error));
	EXPECT(P2PDILOCO_OK, p2pdiloco_close(lonely, &error));
	pthread_join(thread, NULL);
	EXPECT(P2PDILOCO_OK, p2pdiloco_leave(node, -1, &error));
	passed("children");
}

int main(int argc, char **argv) {
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1)
		return child(argv[1]);
	other_threads();
	interrupts_in_calls();
	other_threads();
	own_handlers();
	defaults();
	children();
	return failures != 0;
}
