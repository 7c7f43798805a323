// Package demo runs a whole swarm on one machine, to show that it works: a bootstrap node and some
// peers, each its own operating system process, that know nothing but the bootstrap node's address
// and the run's settings.
//
//	Run: open the data -> start processes (processes.go)
//	     -> watch events files and status APIs (watch.go)
//	     -> train one peer alone, for comparison (alone.go)
//	     -> Result (result.go), picture (curve.go), summary (summary.go)
//
// The processes are this program's own `bootstrap` and `join` commands, so the demo shows nothing
// that a user could not type. They never outlive it.
package demo
