// Package peers keeps what one Network knows of its peers: which ones are members of the run, which
// ones greeted it, and which ones connect and leave. Other packages of p2p read it; only Network
// writes it.
package peers
