// Package machine says how large a model this machine can hold. Go ends a process that allocates
// too much, even a host program of the embedding library, so callers ask before they allocate a
// model. It also bounds the garbage beside the model.
package machine

import "fmt"

// nodeVectors are the vectors of D float32 that a node keeps.
const nodeVectors = 5

// Holds returns an error if this machine cannot hold a node's vectors of d elements. If the size of
// its memory is unknown, Holds refuses nothing.
func Holds(d uint64) error {
	if limit := physical(); limit > 0 && d > limit/4/nodeVectors {
		return fmt.Errorf("the model has %d elements: a node keeps %d vectors of them, and this machine has %d MiB "+
			"of memory",
			d, nodeVectors, limit>>20)
	}
	return nil
}
