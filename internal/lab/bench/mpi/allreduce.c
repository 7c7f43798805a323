/*
 * MPI_Allreduce of float32 vectors, to be timed beside `p2plab bench allreduce`.
 *
 *	mpirun -np N allreduce ELEMENTS ROUNDS
 *
 * In each round all ranks pass a barrier and reduce once. Rank 0 prints a line: the seconds that the slowest rank took, the seconds of CPU
 * time that all ranks used from barrier to end, and how many ranks have the right sums.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

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

int main(int argc, char **argv)
{
	int rank, ranks;
	size_t n, rounds;
	float *mine, *sum;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	n = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
	rounds = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	if (n < 1 || n > (size_t)1 << 30 || rounds < 1) {
		fprintf(stderr, "usage: allreduce ELEMENTS ROUNDS\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	mine = malloc(n * sizeof(*mine));
	sum = malloc(n * sizeof(*sum));
	if (mine == NULL || sum == NULL)
		die("malloc");
	fill(mine, n, rank);
	for (; rounds > 0; rounds--) {
		double cpu, began, seconds, slowest, all;
		int good, goods;

		for (size_t j = 0; j < n; j++) /* nothing of the round before is taken for a sum */
			sum[j] = 0;
		MPI_Barrier(MPI_COMM_WORLD);
		cpu = cpu_seconds();
		began = MPI_Wtime();
		MPI_Allreduce(mine, sum, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		seconds = MPI_Wtime() - began;
		cpu = cpu_seconds() - cpu;
		good = right(sum, n, ranks);
		MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
		MPI_Reduce(&cpu, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
		MPI_Reduce(&good, &goods, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
		if (rank == 0)
			printf("%.9f %.6f %d\n", slowest, all, goods);
	}
	free(mine);
	free(sum);
	MPI_Finalize();
	return 0;
}
