// Package builtin is the trainer that needs nothing but this program: a small byte-level GPT in
// plain Go, trained with AdamW on real text. It exists so that a run can be tried, tested and
// demonstrated anywhere; large models bring their own trainer.
//
// A caller opens a Corpus, makes a Trainer with New and passes it to a node. One inner step is
//
//	draw a batch (sampler.go) -> forward (forward.go, attention.go, loss.go)
//	-> backward (backward.go) -> AdamW (adamw.go)
//
// The model is GPT-2's: learned positions, pre-norm blocks of causal attention and a GELU MLP four
// times as wide, and an output head tied to the byte embedding. With the defaults it has 139,680
// parameters. All parameters live in one flat vector, and each tensor
// is a view into it; gradients and optimizer state have the same shape.
//
// The same configuration, corpus, tasks and anchors give the same bits on one machine, whatever
// Config.Threads is. Between machines only the initial parameters are guaranteed to be the same
// bits. A run needs no more, because local training is private to a peer.
package builtin
