package chain

import (
	"crypto/ed25519"
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// signedWorld grows a chain of records that real keys have signed: peers train, come and go.
type signedWorld struct {
	*Chain
	keys   map[slot.PeerID]ed25519.PrivateKey
	peers  []slot.PeerID // members now, in the order in which they came
	made   int
	mute   bool // its signatures are noise that nobody checks
	trusts bool // its signatures are good, and not checked here
}

const worldElements = 1 << 20

func signedRules(byzantine bool) Rules {
	return Rules{
		Run: slot.Hash([]byte("signed")), Byzantine: byzantine, MinPeers: 1, MaxStaleness: 1,
		MaxWeightRatio: 8, Fragments: []uint64{worldElements}, StartPeers: 1, PartSteps: 100,
		Pace: PaceRules{InnerSteps: 50},
	}
}

func newSignedWorld(rules Rules) *signedWorld {
	w := &signedWorld{Chain: New(rules, slot.Root{}), keys: map[slot.PeerID]ed25519.PrivateKey{}}
	w.peers = []slot.PeerID{w.newPeer()}
	w.append(w.SettleFork(slot.Record{Kind: slot.Fork}, Turnover{Listed: w.listed()}))
	return w
}

func verifyEd25519(p slot.PeerID, data, sig []byte) bool {
	return len(p) == idLength && ed25519.Verify(ed25519.PublicKey(p[:ed25519.PublicKeySize]), data, sig)
}

const idLength = 38 // of a libp2p ID of an Ed25519 key

func (w *signedWorld) newPeer() slot.PeerID {
	w.made++
	seed := slot.Hash(fmt.Append(nil, "key ", w.made))
	key := ed25519.NewKeyFromSeed(seed[:])
	p := slot.PeerID(append(slices.Clone(key.Public().(ed25519.PublicKey)), "padded"...))
	w.keys[p] = key
	return p
}

func (w *signedWorld) listed() (ms []slot.Member) {
	for _, p := range slices.Sorted(slices.Values(w.peers)) {
		ms = append(ms, slot.Member{Peer: p, Incarnation: 1})
	}
	return ms
}

// append certifies a record with as few signatures as are a quorum, and appends it.
func (w *signedWorld) append(r slot.Record) {
	next := w.Next()
	r.Run, r.Height, r.Prev = w.rules.Run, next.Height, next.Prev
	r.StateRoot = slot.Hash(fmt.Append(nil, "state ", r.Slot))
	if r.Kind != slot.Fork {
		r.Work = w.WorkAfter(r.Kind, r.Contributions)
	}
	verify := verifyEd25519
	if w.mute || w.trusts {
		verify = trusting
	}
	if err := w.Extend(wire.Commit{Record: r, Certificate: w.certify(r)}, verify); err != nil {
		panic(err)
	}
}

func trusting(slot.PeerID, []byte, []byte) bool { return true }

// sign signs as a peer does, or makes noise of a signature's length.
func (w *signedWorld) sign(p slot.PeerID, data []byte) []byte {
	if !w.mute {
		return ed25519.Sign(w.keys[p], data)
	}
	a := slot.Hash(data)
	b := slot.Hash(a[:])
	return append(a[:], b[:]...)
}

func (w *signedWorld) certify(r slot.Record) slot.Certificate {
	t, voters := slot.TypeVote, w.Electorate()
	if r.Kind == slot.Fork {
		t, voters = slot.TypeFork, r.Electors()
	}
	cert := slot.Certificate{Vote: slot.Vote{Ref: slot.Ref{Height: r.Height, Prev: r.Prev}, Hash: r.Hash()}}
	for _, m := range voters {
		if r.Kind != slot.Fork && len(cert.Signatures) >= w.rules.Votes(len(voters)) {
			break
		}
		data := slot.SignedBytes(t, r.Run, m.Peer, m.Incarnation, cert.Vote.Append(nil))
		cert.Signatures = append(cert.Signatures, slot.Signature{Peer: m.Peer, Sig: w.sign(m.Peer, data)})
	}
	return cert
}

// step appends a step that all members contribute to, as far as newcomers may, with the members
// that are now in peers.
func (w *signedWorld) step() {
	s := w.OpenSlot()
	r := slot.Record{Kind: slot.Step, Slot: s, Usual: w.UsualWeight()}
	for i, m := range w.Members() {
		r.Contributions = append(r.Contributions, slot.Offer{
			Peer: m.Peer, Slot: s, Seq: w.SpentSeq(m.Peer) + 1, Base: s - 1, Weight: 1 + uint64(i),
			Steps: 50, StepTime: 900, Root: slot.Hash(fmt.Append(nil, s, i)), NormSq: 1.5 * float64(s),
		})
	}
	r.Contributions = w.WithinShare(r.Contributions)
	all, n := slot.NewBitmap(len(r.Contributions)), uint64(len(w.Members()))
	for i := range r.Contributions {
		all.Set(i)
	}
	for i := range n {
		r.Segments = append(r.Segments, slot.Segment{
			Range:        slot.Range{Begin: i * worldElements / n, End: (i + 1) * worldElements / n},
			Contributors: all, Root: slot.Hash(fmt.Append(nil, "segment", s, i)),
		})
	}
	turn := Turnover{Listed: w.listed()}
	if able := w.Candidates(w.Settle(r, turn)); len(able) > 0 {
		turn.Seat = able[0].Peer
	}
	w.append(w.Settle(r, turn))
}

// members appends a record that lists the peers that there are now.
func (w *signedWorld) members() {
	w.append(w.settled())
}

func (w *signedWorld) settled() slot.Record {
	return w.Settle(slot.Record{Kind: slot.Members, Slot: w.Tip().Slot}, Turnover{Listed: w.listed()})
}

// churned is a world after some slots.
func churned(byzantine bool, slots, most, period int) *signedWorld {
	w := newSignedWorld(signedRules(byzantine))
	w.churn(slots, most, period, func() {})
	return w
}

// churn runs slots with a join and a loss every period.
func (w *signedWorld) churn(slots, most, period int, each func()) {
	for i := range slots {
		switch {
		case len(w.peers) < most && i%period == 0, len(w.peers) < most && i < 4*most && i%4 == 0:
			w.peers = append(w.peers, w.newPeer())
		case len(w.peers) == most && i%period == period/2:
			w.peers = w.peers[1:] // the oldest one is lost
			w.members()
		}
		w.step()
		each()
	}
}
