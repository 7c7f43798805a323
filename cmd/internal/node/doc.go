// Package node has the commands that run a node of the network: join, a peer that trains in a run,
// and bootstrap, which newcomers start from. cmd/p2pdiloco offers them to users; cmd/p2plab starts
// them as the peers of its swarms.
//
// join makes a participant (participant.go): it opens the peer with bridge/peer, makes the trainer
// (trainer.go), prints the events that people want to know of (describe.go), and sums up at the
// end.
package node
