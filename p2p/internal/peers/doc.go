// Package peers keeps what the parts of one Network have in common (Env): its host, its goroutines
// (Group), and what it knows of its peers: which ones are members of the run, and which ones
// greeted it. Only Network writes that. A Dialer makes connections to peers: in which order a
// peer's addresses are tried, when a dial that is under way ends or begins again, and what is said
// when all addresses failed. The functions about addresses have no state.
package peers
