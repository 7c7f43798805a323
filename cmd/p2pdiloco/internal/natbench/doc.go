// Package natbench finds out how peers behind routers reach each other: real processes of this program in a world of package
// internal/lab/nat. First every pair of kinds, alone in a run (pair.go); then four peers whose all-reduce must go on while nodes die and an address
// changes (four.go, steps.go). What the peers' status says of their ways to each other is reported as it is: who is not connected is told so.
//
// It needs root and Linux. Processes and namespaces are gone when Run returns, whatever happened; those of one that was killed are removed by the next.
package natbench
