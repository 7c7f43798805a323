// Package p2pdiloco trains one model on many machines that do not trust or know each other, over
// ordinary internet links, with no server in the middle (DiLoCo, arXiv 2311.08105).
//
// Every peer trains locally for H inner steps, the peers combine their pseudo-gradients in an
// all-reduce that survives bad values and vanished peers, agree on the result, and each applies the
// same outer optimizer step to the same bits. So all hold the identical model. Peers come and go at
// any time, and any of them may die.
//
// A peer is a [Node]. [Join] makes one: it finds the run by its name, or founds it. Then either the
// node drives a [Trainer],
//
//	node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{Spec: p2pdiloco.Spec{Name: "my-run"}, Trainer: t})
//	err = node.Run(ctx)
//	err = node.Leave(ctx)
//
// or the caller's own loop calls Sync after every H steps:
//
//	_, err = node.Anchor(ctx, params)
//	for err == nil {
//		train(params)
//		err = node.Sync(ctx, params, tokens)
//	} // p2pdiloco.ErrRunEnded after the last slot
//
// (Begin and Round.Finish are Sync in two halves, for a loop that has something to do meanwhile.)
//
// # Where to look
//
// This package puts the parts of a node together: join.go finds the run, open.go opens what needs
// its spec and then does what the ledger's newest view asks for, and node.go has the calls of a
// training program and of an operator. What it reports is in status.go, members.go and events.go:
// they only observe. serve.go has the figures of a status, the metrics and the API. The parts are
// packages of their own:
//
//	spec, trainer           what a run is agreed on, and what a trainer is: import these, too
//	internal/node/round     one round, from the inner steps to the new anchor (round.go), and the
//	                        five modes
//	internal/node/replica   the model: its state, outcomes, checkpoints and error feedback
//	internal/node/formation finding the run, and which spec holds
//	internal/node/admission private runs: secrets, tickets, operators' motions
//	internal/node/edge      messages and streams on their way to the network
//	membership              which peers take part, and what was agreed: the slot ledger
//	allreduce, outeropt     the reduction of contributions, and the outer step
//	p2p, gossip             hosts, discovery, streams; announcements
//
// What is shared between them lies in internal/slot.
package p2pdiloco
