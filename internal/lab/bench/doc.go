// Package bench has what the benches of p2plab share. Packages step and modes measure.
//
//	Place        where the processes of a swarm run: on loopback, or each in a namespace behind a link
//	Report       what was measured, in Go's benchmark format, with medians beside the goals (goals.txt)
//	OpenMPI      MPI_Allreduce of the machine's OpenMPI, to measure beside
//	CPUSeconds   what a process has used; PeakMemory, LiveMemory
package bench
