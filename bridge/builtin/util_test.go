package builtin

import (
	"math/rand/v2"
	"testing"
)

// must fails where something did.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// testCorpus is text with something to learn: sentences of a few words, in random order.
func testCorpus() *Corpus {
	words := []string{"the ", "peer ", "trains ", "a ", "model ", "and ", "sends ", "its ", "gradient.\n"}
	rng := rand.New(rand.NewPCG(1, 2))
	text := func(n int) (b []byte) {
		for len(b) < n {
			b = append(b, words[rng.IntN(len(words))]...)
		}
		return b[:n]
	}
	return &Corpus{train: text(1 << 16), heldOut: text(1 << 13)}
}

func newTestTrainer(tb testing.TB, cfg Config) *Trainer {
	tb.Helper()
	t, err := New(cfg, testCorpus())
	must(tb, err)
	return t
}
