package main

import (
	"os"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
)

// rankProgram is the argument with which the test binary is one rank of a trainer:
//
//	rank NUMBER WORLD TARGET PACE LOG    the socket is in the environment
const rankProgram = "rank"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == rankProgram {
		beRank(os.Args[2:])
	}
	clitest.Main(m, main)
}
