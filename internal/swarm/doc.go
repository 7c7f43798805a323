// Package swarm starts this program's own commands as processes on this machine, follows them and
// stops them. demo, chaos and the benches use it.
//
// A Launcher starts processes (process.go), a Boot is a bootstrap node among them (boot.go), Screen
// shows progress on a terminal (screen.go). Processes never outlive the launcher's owner: each is
// in a process group of its own, and on Linux the kernel kills it if its parent is killed.
package swarm
