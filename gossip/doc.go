// Package gossip carries a run's announcements: small signed messages that every peer of the run is
// to see, over one gossipsub topic.
//
//	topic, err := gossip.Join(ctx, net.Host(), gossip.Config{
//		Topic: "/p2pdiloco/run/" + runID, Boot: boots, Kinds: []uint8{1},
//		Deliver: func(from slot.PeerID, kind uint8, body []byte) { … },
//	})
//	defer topic.Close()
//	err = topic.Publish(ctx, 1, body)
//
// libp2p signs each message with its author's key and drops what is not signed, so `from` is the
// author, no matter which peer passed the message on. Before it is delivered or passed on, a
// message goes through:
//
//	size -> parse -> known kind -> not seen before -> not too many from this author -> the caller's Check
//
// What no honest peer sends (malformed, oversized, or so judged by Check) is rejected; what may
// come honestly (a repetition, a burst, a kind that only a later release knows) is ignored, and
// only a message that went through all is passed on.
//
// Repetition. Every announcement carries the author's boot number, which rises with each start of
// the author, and a counter. A receiver keeps for each author the newest boot and a window of
// counters, so an old message played again is not delivered again, with no clock involved: libp2p's
// own check compares times and mutes a peer whose clock went back. 4096 windows are
// kept in memory: those of the authors given to Topic.Keep, and of the others those heard last.
// A caller that must act on a message once only still has to see to that itself.
package gossip
