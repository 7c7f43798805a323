// Package discovery finds the peers of a run: in a DHT of our own, on the local network (mDNS), and
// among those that are remembered. It hands them to the Dialer of package peers, and reports those
// that are connected.
//
// Every peer is a server of the DHT, so the run outlives its bootstrap nodes. Peers announce
// themselves under the names of a run (Places), and search for each other there.
//
// A peer that is found is a stranger: anybody may announce anything. So announcements held and
// peers found have bounds.
//
// The caller makes the DHT (NewDHT) and a Discovery. All loops belong to the caller's task group.
package discovery
