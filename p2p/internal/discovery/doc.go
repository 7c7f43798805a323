// Package discovery finds the peers of a run: in a DHT of our own, on the local network (mDNS), and
// at addresses that were given or remembered.
//
// Every peer is a server of the DHT, so the run outlives its bootstrap nodes. Peers announce
// themselves under the names of a run (Places), and search for each other there. Bootstrap nodes,
// and remembered peers where this peer is alone, are dialled until one answers.
//
// A peer that is found is a stranger: anybody may announce anything. So announcements held, peers
// found and addresses remembered have bounds, and members keep their place where something must go.
//
// The caller makes the DHT (NewDHT) and a Discovery, and calls Start. All loops belong to the
// caller's task group.
package discovery
