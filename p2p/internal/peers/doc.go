// Package peers keeps what the parts of one Network have in common (Env): its host, its goroutines,
// and what it knows of its peers: which ones are members of the run, and which ones greeted it.
// Only Network writes that.
package peers
