package membership

import (
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// maxVerified is the number of signatures after which the older ones are forgotten: at least as
// many are remembered, at most twice as many, in about 1 MB.
const maxVerified = 8192

// verified checks signatures, and remembers the good ones. The same signature comes more than once:
// that of an OFFER by gossip, in the PLAN and in the DRAFT; those of HAVE and VOTE by themselves,
// then in a QC or a certificate. A check takes some 50 us, a look into the memory about 1. Whoever
// floods a peer with signatures of its own makes it forget others, and check them anew.
type verified struct {
	verify slot.Verifier
	mu     struct {
		sync.Mutex
		newer, older map[slot.Root]struct{} // hashes of signer, data and signature
	}
}

func newVerified(verify slot.Verifier) *verified {
	v := &verified{verify: verify}
	v.mu.newer = map[slot.Root]struct{}{}
	return v
}

// check is a slot.Verifier. Any number of goroutines may use it.
func (v *verified) check(p slot.PeerID, data, sig []byte) bool {
	key := slot.Hash(canonical.AppendBytes(canonical.AppendBytes(canonical.AppendBytes(nil, p), data), sig))
	if v.knows(key) {
		return true
	}
	if !v.verify(p, data, sig) {
		return false
	}
	v.note(key)
	return true
}

func (v *verified) knows(key slot.Root) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, newer := v.mu.newer[key]
	_, older := v.mu.older[key]
	return newer || older
}

func (v *verified) note(key slot.Root) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.mu.newer) >= maxVerified {
		v.mu.newer, v.mu.older = map[slot.Root]struct{}{}, v.mu.newer
	}
	v.mu.newer[key] = struct{}{}
}
