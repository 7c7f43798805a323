// Package swarm starts this program's own commands as processes, follows them and stops them. demo,
// chaos, hostile, soak and the benches use it.
//
// A Swarm is the processes of one run on a Testbed, which says where each of them runs: on this
// machine (Loopback), or in network namespaces that package lab makes. Join and StartBoot start
// peers and bootstrap nodes; a Peer is what can be read of one through all its processes: its
// events, its status and its report. Screen shows progress on a terminal. Processes never outlive
// the Swarm's owner: each is in a process group of its own, and on Linux the kernel kills it if its
// parent is killed.
package swarm
