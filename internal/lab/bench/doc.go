// Package bench has what the benchmarks below internal/lab share.
//
//	Open         where the processes of a swarm run: on loopback, or each in a namespace behind a link
//	Median       and other quantiles
//	CPUSeconds   what a process has used; PeakMemory
//	Seconds      times and sizes for people; Size
package bench
