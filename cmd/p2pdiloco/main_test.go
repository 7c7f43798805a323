package main

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, main) }
