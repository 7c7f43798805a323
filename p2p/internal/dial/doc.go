// Package dial makes connections to peers: in which order a peer's addresses are tried, when a dial
// that is under way ends or begins again, and what is said when all addresses failed.
package dial
