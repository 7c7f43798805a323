// Package bench holds programs that this one is measured against. They are compiled when they are asked for, by what the machine has.
package bench

import _ "embed"

// MPIAllreduce is the C source of an MPI program that reduces when it is told to: `p2pdiloco bench allreduce --against mpi` runs it.
//
//go:embed mpi/allreduce.c
var MPIAllreduce string
