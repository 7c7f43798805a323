// Package trainer is what a program implements to train its own model in a run: the interface
// Trainer, the optional interfaces beside it, and the values they pass. It imports the standard
// library only, so a trainer needs nothing else of p2pdiloco.
//
// A node (package p2pdiloco) owns the trainer and drives it through the rounds of a run:
//
//	Layout                      once, before the node joins
//	Restore                     once, if the trainer is a Saver and has saved before
//	Init                        only on the peer that founds the run
//	for each round {
//	    Load(start)             where the inner steps start
//	    Train(task)             H inner steps, on a part of the data that no other peer has
//	    Export or ExportGradient
//	    Evaluate, Save          now and then
//	}
//
// All vectors are flat and of type float32, with D = Layout.Elements() elements: the tensors one
// after the other in the layout's order, each row-major. A node makes one call at a time, from one
// goroutine, and never keeps the slices that it passes or is passed; a trainer keeps none, either.
//
// A trainer that cannot do what an optional interface asks returns errors.ErrUnsupported from it.
// The node then does without. Of a Returner, ErrAnew and ErrNotFinite make the node wait until it
// has a live model again. Any other error ends the node's Run, and the run goes on without this
// peer.
package trainer
