// Package natbench measures how peers behind routers reach each other, with real processes of this
// program in a world of package internal/lab/nat. First it takes every pair of kinds, alone in a
// run (pair.go); then four peers whose all-reduce must go on while nodes die and an address changes
// (four.go, steps.go). It reports the connections as the peers' status shows them.
//
// It needs root and Linux. Processes and namespaces are gone when Run returns, whatever happened;
// the next Run removes those of a process that was killed.
package natbench
