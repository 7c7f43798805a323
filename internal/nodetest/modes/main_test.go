package modes

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

type (
	swarm    = nodetest.Swarm
	peer     = nodetest.Peer
	scenario = nodetest.Scenario
)

// mostly is an outer optimizer that a program brings: most of a step now, the rest with the next.
var mostly = outeropt.Custom{
	Name: "mostly", Version: 1, Vectors: 1,
	Step: func(params, grad []float32, state [][]float32, cfg outeropt.Config, _ outeropt.At) {
		for j, rest := range state[0] {
			state[0][j] = float32(cfg.Momentum * grad[j])
			params[j] -= float32(cfg.LR * (rest + float32((1-cfg.Momentum)*grad[j])))
		}
	},
}

func TestMain(m *testing.M) {
	var err error
	if mostly.Golden, err = mostly.Fingerprint(); err == nil {
		err = outeropt.Register(mostly)
	}
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
