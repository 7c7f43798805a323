/*
 * MPI_Allreduce of float32 vectors, to be timed beside `p2plab bench allreduce`.
 *
 *	mpirun -np N allreduce FOLDER ELEMENTS
 *
 * Rank r waits for a byte in the FIFO FOLDER/go-r. It blocks there and not in MPI, whose waits spin: so it costs nothing while others are
 * measured. Then all ranks pass a barrier, reduce once, and each writes a line to the FIFO FOLDER/done: its rank, the seconds it took, the
 * seconds of CPU time it used from barrier to end, and whether the sums are right. The end of FOLDER/go-r ends the program.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

static double cpu_seconds(void)
{
	struct rusage u;

	if (getrusage(RUSAGE_SELF, &u) != 0)
		die("getrusage");
	return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec + 1e-6 * ((double)u.ru_utime.tv_usec + (double)u.ru_stime.tv_usec);
}

/* Ranks contribute rank + 1 + j % 8 at coordinate j: small whole numbers, whose sums are exact in any order. */
static void fill(float *x, size_t n, int rank)
{
	for (size_t j = 0; j < n; j++)
		x[j] = (float)((size_t)(rank + 1) + j % 8);
}

static int right(const float *sum, size_t n, int ranks)
{
	for (size_t j = 0; j < n; j++)
		if (sum[j] != (float)((size_t)(ranks * (ranks + 1) / 2) + (size_t)ranks * (j % 8)))
			return 0;
	return 1;
}

static int open_fifo(const char *folder, const char *name, int flags)
{
	char path[4096];
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		die("the folder's name is too long");
	fd = open(path, flags);
	if (fd < 0)
		die(path);
	return fd;
}

int main(int argc, char **argv)
{
	int rank, ranks, go, done, length;
	char name[32], line[128], byte;
	size_t n;
	float *mine, *sum;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	n = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	if (n < 1 || n > (size_t)1 << 30) {
		fprintf(stderr, "usage: allreduce FOLDER ELEMENTS\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	mine = malloc(n * sizeof(*mine));
	sum = calloc(n, sizeof(*sum));
	if (mine == NULL || sum == NULL)
		die("malloc");
	fill(mine, n, rank);
	snprintf(name, sizeof(name), "go-%d", rank);
	go = open_fifo(argv[1], name, O_RDONLY);
	done = open_fifo(argv[1], "done", O_WRONLY);
	while (read(go, &byte, 1) == 1) {
		double cpu, began, seconds;

		MPI_Barrier(MPI_COMM_WORLD);
		cpu = cpu_seconds();
		began = MPI_Wtime();
		MPI_Allreduce(mine, sum, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		seconds = MPI_Wtime() - began;
		cpu = cpu_seconds() - cpu;
		length = snprintf(line, sizeof(line), "%d %.9f %.6f %d\n", rank, seconds, cpu, right(sum, n, ranks));
		if (write(done, line, (size_t)length) != length) /* whole: it is shorter than PIPE_BUF */
			die("write");
	}
	free(mine);
	free(sum);
	MPI_Finalize();
	return 0;
}
