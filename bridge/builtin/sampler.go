package builtin

import (
	"math/rand/v2"

	"github.com/p2pdiloco/p2pdiloco"
)

// sampler draws training sequences from one peer's shards for one round.
type sampler struct {
	corpus *Corpus
	shards []int
	rng    *rand.Rand
}

// newSampler seeds the draw with (the run's seed, slot, peer): a peer that restarts goes on with data it has not seen in this order, and
// no two peers draw alike.
func newSampler(c *Corpus, task p2pdiloco.Task) *sampler {
	return &sampler{
		corpus: c,
		shards: ownShards(task.Seed, c.shards, task.Self, task.Members),
		rng:    rand.New(rand.NewChaCha8(keyed("p2pdiloco/sample/1", task.Seed, task.Slot, task.Self))),
	}
}

// draw fills b with random windows, each inside one shard.
func (s *sampler) draw(b *batch, sequences, length int) {
	b.inputs, b.targets = b.inputs[:0], b.targets[:0]
	for range sequences {
		text := s.corpus.shard(s.shards[s.rng.IntN(len(s.shards))])
		b.appendWindow(text[s.rng.IntN(len(text)-length):], length)
	}
}
