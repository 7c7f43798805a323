package testutil

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"testing"
)

// SeedVariable has random tests draw other numbers: each value, any text, gives others.
const SeedVariable = "P2PDILOCO_TEST_SEED"

// Random returns the random numbers of a test. They are other ones in every test and for every
// value of P2PDILOCO_TEST_SEED, and the same again for the same two. The log says how to have them
// again.
func Random(t testing.TB) *rand.Rand {
	seed := os.Getenv(SeedVariable)
	t.Logf("these random numbers come from %s=%q and the test's name", SeedVariable, seed)
	h := fnv.New128a()
	_, _ = h.Write([]byte(t.Name() + "\x00" + seed))
	sum := h.Sum(nil)
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:])))
}
