//go:build unix

package chain

import (
	"crypto/ed25519"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// What a newcomer takes in of runs whose members come and go, by how many changes of who votes
// there were. Signatures are noise that nobody checks, so the times are those of all else: reading,
// hashing the lists that the differences lead to, and the rules. How many signatures there are to
// check is told beside, and how long one takes. The figures are in docs/reference/process.md.
//
//	P2PDILOCO_TEST=nightly go test ./membership/chain -run TestPastOfManyChanges -v -timeout 1h
func TestPastOfManyChanges(t *testing.T) {
	t.Logf("a signature takes %v to check", timeOfASignature(t))
	for _, byzantine := range []bool{false, true} {
		for _, members := range testlevel.Choose([]int{8}, []int{24}, []int{8, 70, 500}) {
			w := newSignedWorld(signedRules(byzantine, 64))
			w.mute = true
			for _, changes := range testlevel.Choose([]uint64{100}, []uint64{200}, []uint64{1000, 10_000}) {
				for w.linked.count < changes || w.past == nil || uint64(len(w.Past().Links)) < changes {
					w.churn(2, members, 2, func() { w.Prune(0) })
				}
				takeIn(t, w, fmt.Sprintf("byzantine %v, %d members", byzantine, members))
			}
		}
	}
}

// takeIn has a newcomer take in what a chain keeps of its past, and tells what that costs.
func takeIn(t *testing.T, w *signedWorld, name string) {
	t.Helper()
	p := *w.Past()
	whole, bytes, signatures := 0, 0, 0
	for i, l := range readLinks(t, w.rules.Run, p) {
		whole += len(l.Head.Append(l.Certificate.Append(nil)))
		bytes += len(p.Links[i])
	}
	named := w.Above(w.Floor())[:w.Start()+1-w.Floor()]
	packed, before := wire.PackPast(p, named), heap()
	since := processor(t)
	open := func() (*Chain, error) { // it keeps nothing of what it has unpacked
		got, commits, err := wire.UnpackPast(packed)
		if tooLarge := wire.PastSize(p, named) > wire.MaxPast; tooLarge != (err != nil) {
			t.Fatalf("%s: %v", name, err)
		} else if tooLarge {
			name += ", too large for newcomers"
			got, commits = p, named
		}
		return Open(w.rules, slot.Root{}, got, commits, func(slot.PeerID, []byte, []byte) bool {
			signatures++
			return true
		})
	}
	c, err := open()
	took := processor(t) - since
	if err != nil || c.TipHash() != w.Hash(w.Start()+1) {
		t.Fatalf("%s: %v", name, err)
	}
	n := len(p.Links)
	t.Logf("%s, %d changes: a link has %d bytes, whole ones %d; links of %d kB, whole %d kB; the past has %d kB, "+
		"packed %d; taken in within %v of a core and %d signatures; it keeps %d kB",
		name, n, bytes/n, whole/n, bytes/1000, whole/1000,
		wire.PastSize(p, named)/1000, len(packed)/1000, took.Round(time.Millisecond), signatures,
		(heap()-min(heap(), before))/1000)
	runtime.KeepAlive(c)
	runtime.KeepAlive(packed)
	if bytes > whole/2 {
		t.Errorf("%s: links of %d bytes, %d as whole ones", name, bytes, whole)
	}
}

func timeOfASignature(t *testing.T) time.Duration {
	const n = 1000
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	data := make([]byte, 200)
	sig, since := ed25519.Sign(key, data), processor(t)
	for range n {
		ed25519.Verify(key.Public().(ed25519.PublicKey), data, sig)
	}
	return (processor(t) - since) / n
}

// processor is the time of all cores that the test has had, whatever else the machine does.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
