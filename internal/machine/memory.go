// Package machine says what this machine can hold. Go ends a process that asks for more, a host program of the embedding library included, so it is
// asked before a model is allocated. It also says how much garbage may lie beside the model.
package machine

import "fmt"

// nodeVectors are the vectors of D float32 that a node keeps.
const nodeVectors = 5

// Holds is an error where this machine cannot hold a node's vectors of d elements. Where its size is unknown nothing is refused.
func Holds(d uint64) error {
	if limit := physical(); limit > 0 && d > limit/4/nodeVectors {
		return fmt.Errorf("the model has %d elements: a node keeps %d vectors of them, and this machine has %d MiB of memory",
			d, nodeVectors, limit>>20)
	}
	return nil
}
