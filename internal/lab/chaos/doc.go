// Package chaos runs a swarm of real processes on this machine, hurts it by a schedule drawn from a
// seed, and checks that nothing agreed was lost.
//
//	row.go        the table of kinds of faults: whom, what in words, how long, at what cost
//	schedule.go   (seed, peers, slots, kinds) -> faults, each at a slot: a pure function
//	runner.go     one loop: read the peers' events (ledger.go) -> begin faults, and carry out their
//	              words (fault.go, pick.go, script.go) -> open the gate (gate.go)
//	history.go    what all event logs say: the certified records, and the states that peers held
//	check.go      (history, ends of the processes) -> named checks; bill.go: what faults may cost
//	result.go     the document that --json prints, and the same for people
//	soak.go       two swarms beside each other, of which one is hurt by the clock
//	assault.go    the same with hostile peers (package hostile) instead of faults; judge.go
//
// The swarm never runs ahead of its schedule: trainers wait at a gate, a file with the newest slot
// to train for. So each fault hits the slot that it was drawn for, and the last slots wait until
// all peers are back. A seed that fails can be run again, and takes the same course as far as
// processes and their timing allow.
//
// Faults that separate peers need network namespaces, and so root. All processes end with this one.
package chaos
