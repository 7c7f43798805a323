package builtin

import (
	"fmt"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
)

func peers(n int) (ids []p2pdiloco.PeerID) {
	for i := range n {
		ids = append(ids, p2pdiloco.PeerID(fmt.Sprintf("peer %d", i)))
	}
	return ids
}

// owners maps each shard to its owner, failing when a shard has two or none.
func owners(t *testing.T, seed uint64, shards int, members []p2pdiloco.PeerID) map[int]p2pdiloco.PeerID {
	t.Helper()
	all := map[int]p2pdiloco.PeerID{}
	for _, m := range members {
		for _, s := range ownShards(seed, shards, m, members) {
			if other, taken := all[s]; taken {
				t.Fatalf("shard %d belongs to %s and %s", s, string(other), string(m))
			}
			all[s] = m
		}
	}
	if len(all) != shards {
		t.Fatalf("%d of %d shards have an owner", len(all), shards)
	}
	return all
}

func TestShardsMoveOnlyToAndFromTheOneThatChanges(t *testing.T) {
	const shards, n = 1000, 8
	members := peers(n)
	before, moved := owners(t, 1, shards, members[:n-1]), 0
	for s, owner := range owners(t, 1, shards, members) {
		if owner == before[s] {
			continue
		}
		moved++
		if owner != members[n-1] {
			t.Errorf("shard %d moved between two peers that stayed", s)
		}
	}
	if fair := shards / n; moved < fair/2 || moved > fair*2 {
		t.Errorf("%d of %d shards moved to one newcomer of %d, want about %d", moved, shards, n, fair)
	}
	if slices.Equal(ownShards(1, shards, members[0], members), ownShards(2, shards, members[0], members)) {
		t.Error("another seed gives the same shards")
	}
}

func TestShardsForEverybody(t *testing.T) {
	members := peers(50)
	for _, m := range members {
		if len(ownShards(1, 3, m, members)) == 0 {
			t.Errorf("%s has nothing to train on", string(m))
		}
	}
	if n := len(ownShards(1, 64, "stranger", members[:1])); n == 0 || n == 64 {
		t.Errorf("a peer that is not listed takes %d of 64 shards, want about half", n)
	}
	if n := len(ownShards(1, 64, "alone", nil)); n != 64 {
		t.Errorf("a peer without members takes %d of 64 shards", n)
	}
}

// drawn is the first bytes a peer trains on in a slot.
func drawn(c *Corpus, seed uint64, task p2pdiloco.Task) string {
	var b batch
	task.Seed = seed
	newSampler(c, task).draw(&b, 4, 16)
	return string(b.inputs)
}

func TestSamplingFollowsFromSeedPeerAndSlot(t *testing.T) {
	c := testCorpus()
	task := p2pdiloco.Task{Slot: 3, Self: "a", Members: []p2pdiloco.PeerID{"a", "b"}}
	first := drawn(c, 1, task)
	if first != drawn(c, 1, task) {
		t.Error("the same task draws differently")
	}
	next, other := task, task
	next.Slot, other.Self = 4, "b"
	if first == drawn(c, 1, next) || first == drawn(c, 1, other) || first == drawn(c, 2, task) {
		t.Error("another slot, peer or seed draws the same")
	}
}

// Windows stay inside the peer's shards, reach both ends of them, and targets are the bytes that follow.
func TestDrawStaysInsideShards(t *testing.T) {
	c := &Corpus{train: make([]byte, 97), shards: 4}
	for i := range c.train {
		c.train[i] = byte(i)
	}
	s := newSampler(c, p2pdiloco.Task{Seed: 1, Self: "a", Members: peers(2)})
	seen := map[byte]bool{}
	var b batch
	for range 200 {
		s.draw(&b, 1, 5)
		for i, v := range b.inputs {
			seen[v] = true
			if b.targets[i] != v+1 {
				t.Fatalf("%d is followed by %d", v, b.targets[i])
			}
		}
		seen[b.targets[4]] = true
	}
	want := 0
	for _, i := range s.shards {
		want += len(c.shard(i))
		for _, v := range c.shard(i) {
			if !seen[v] {
				t.Errorf("byte %d of shard %d was never drawn", v, i)
			}
		}
	}
	if len(seen) != want {
		t.Errorf("%d bytes drawn from shards of %d", len(seen), want)
	}
}
