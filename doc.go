// Package p2pdiloco trains one model on many machines that do not trust or know each other, over ordinary internet links, with
// no server in the middle (DiLoCo, arXiv 2311.08105).
//
// Every peer trains locally for H inner steps, the peers combine their pseudo-gradients in an all-reduce that survives bad values
// and vanished peers, agree on the result, and each applies the same outer optimizer step to the same bits. So all hold the
// identical model. Peers come and go at any time, and any of them may die.
//
// A peer is a [Node]. [Join] makes one: it finds the run by its name, or founds it. Then either the node drives a [Trainer],
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
// Where to look: node.go is the data flow of a round, training.go what it asks of a trainer, overlap.go and streaming.go what
// changes where the reduction runs beside the inner steps (Spec.Mode), sync.go the same for a loop of the caller's, worker.go what the ledger has
// done, join.go how the parts are put together. The parts are packages of their own, side by side: p2p (hosts, discovery,
// streams), gossip (announcements), membership (who takes part, and what was agreed), allreduce (plans, aggregation, transfer),
// outeropt (the outer step). What may be shared between them lies in internal/slot.
package p2pdiloco
