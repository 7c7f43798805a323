package outeropt_test

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// Lion (arXiv 2302.06675) as the outer optimizer of a run: a step has the size of the rate in each
// element, in the direction of beta1*m + (1-beta1)*g, and m is a running mean.
func ExampleRegister() {
	lion := outeropt.Custom{
		Name: "lion", Version: 1, Vectors: 1, Step: stepLion,
		Golden: "369ceff6802e2026a0570c3a06b4d7bb54b5e67e24cbc34f3448376f0e718c8b",
	}
	if err := outeropt.Register(lion); err != nil {
		fmt.Println(err)
		return
	}
	// A run then names it: p2pdiloco.Spec{Outer: "lion", OuterLR: "0.001", Momentum: "0.9", …}.
	fmt.Println(slices.Contains(outeropt.Names(), "lion"))
	// Output: true
}

func stepLion(params, grad []float32, state [][]float32, cfg outeropt.Config, _ outeropt.At) {
	m := state[0]
	for j, g := range grad {
		switch towards := float32(cfg.Momentum*m[j]) + float32((1-cfg.Momentum)*g); {
		case towards > 0:
			params[j] -= cfg.LR
		case towards < 0:
			params[j] += cfg.LR
		}
		m[j] = float32(cfg.Beta2*m[j]) + float32((1-cfg.Beta2)*g)
	}
}
