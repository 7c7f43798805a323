package builtin

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/p2pdiloco/p2pdiloco"
)

// ownShards is the shards that are self's among the members, ascending. Each shard goes to the member with the highest hash of
// (seed, shard, member) (rendezvous hashing, Thaler and Ravishankar 1998), so each has one owner, everybody computes the same
// without a word, and a member that joins or leaves moves only its own share.
//
// A peer that is not listed counts as a member, and a member to which no shard fell takes the one for which its hash is
// highest: it can train, on data that another trains on too.
func ownShards(seed uint64, shards int, self p2pdiloco.PeerID, members []p2pdiloco.PeerID) []int {
	var own []int
	nearest, nearestWeight := 0, uint64(0)
	for s := range shards {
		mine := shardWeight(seed, s, self)
		if mine > nearestWeight {
			nearest, nearestWeight = s, mine
		}
		if winsShard(seed, s, self, mine, members) {
			own = append(own, s)
		}
	}
	if len(own) == 0 {
		own = []int{nearest}
	}
	return own
}

// winsShard says whether no member outweighs self; equal hashes go to the lower ID.
func winsShard(seed uint64, s int, self p2pdiloco.PeerID, mine uint64, members []p2pdiloco.PeerID) bool {
	for _, m := range members {
		if m == self {
			continue
		}
		if w := shardWeight(seed, s, m); w > mine || w == mine && m < self {
			return false
		}
	}
	return true
}

func shardWeight(seed uint64, s int, peer p2pdiloco.PeerID) uint64 {
	sum := keyed("p2pdiloco/shard/1", seed, uint64(s), peer)
	return binary.BigEndian.Uint64(sum[:])
}

// keyed hashes its arguments, whose encoding is unambiguous: only the last has no fixed length.
func keyed(purpose string, seed, n uint64, peer p2pdiloco.PeerID) [32]byte {
	b := append(make([]byte, 0, 128), purpose...)
	b = binary.BigEndian.AppendUint64(b, seed)
	b = binary.BigEndian.AppendUint64(b, n)
	return sha256.Sum256(append(b, peer...))
}
