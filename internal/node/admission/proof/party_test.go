package proof

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

const now = 1_800_000_000

func member(self slot.PeerID) *Party {
	return &Party{Run: "books", Self: self, Ring: NewRing(Secret{1, 2, 3}), Used: NewRegister()}
}

// newcomer has a token that a member made.
func newcomer(self slot.PeerID, uses uint32, expires uint64) *Party {
	t := &ticket.Token{ID: [ticket.IDSize]byte{9}, Uses: uses}
	t.Tag = Secret{1, 2, 3}.Tag("books", t.ID, expires, uses)
	return &Party{Run: "books", Self: self, Token: t, Until: expires, Used: NewRegister()}
}

// meet is an exchange over the wire: what each side makes of the other.
func meet(t *testing.T, asker, answerer *Party) (admitted bool, err error) {
	t.Helper()
	asked := asker.Ask(answerer.Self, 0)
	ask, err := ParseAsk(asked.Append(nil))
	if err != nil || ask != asked {
		t.Fatalf("%+v is read as %+v, %v", asked, ask, err)
	}
	said := answerer.Answer(now, asker.Self, ask)
	answer, err := ParseAnswer(said.Append(nil))
	if err != nil || !reflect.DeepEqual(answer, said) {
		t.Fatalf("%+v is read as %+v, %v", said, answer, err)
	}
	return answer.Refusal == "", asker.Judge(now, answerer.Self, asked, answer)
}

// A peer that only has the same ticket can answer, too, and has no secret to give.
func TestAFalseSecretIsNotKept(t *testing.T) {
	x, other := newcomer("x", 2, now+60), newcomer("o", 2, now+60)
	asked := x.Ask(other.Self, 0)
	wrong := Answer{Secret: Secret{6, 6, 6}}
	wrong.Proof = prove(other.Token.Tag, other.Self, x.Self, wrong.body())
	if err := x.Judge(now, other.Self, asked, wrong); err == nil || !x.Ring.IsZero() {
		t.Errorf("%v; %d secrets", err, len(x.Ring.line))
	}
}

func TestATokenIsUsedUp(t *testing.T) {
	a, b := member("a"), member("b")
	for i := range 4 {
		x := newcomer(slot.PeerID(fmt.Sprint("x", i)), 2, now+60)
		for range 2 { // the same peer may come again
			if admitted, err := meet(t, x, a); admitted != (i < 2) {
				t.Errorf("newcomer %d: %v", i, err)
			}
			x.Ring = Ring{}
		}
	}
	b.Used.Merge(now, a.Used.Told())
	if admitted, err := meet(t, newcomer("y", 2, now+60), b); admitted ||
		!strings.Contains(err.Error(), "fewer peers") {
		t.Errorf("another member, which has been told: %v", err)
	}
	c := member("c")
	if admitted, _ := meet(t, c, a); !admitted {
		t.Fatal("not admitted")
	}
	if admitted, _ := meet(t, newcomer("y", 2, now+60), c); admitted {
		t.Error("who was told in an answer has not learnt it")
	}
}

// A proof is good for one pair of peers, in one direction, and an answer for one asker.
func TestReplays(t *testing.T) {
	a, b, thief := member("a"), member("b"), slot.PeerID("thief")
	x, y := newcomer("x", 5, now+60), newcomer("y", 5, now+60)
	ask, asked := a.Ask("b", 0), x.Ask("b", 0)
	answer := b.Answer(now, "x", asked)
	for what, taken := range map[string]bool{
		"a proof from somebody else":             b.Answer(now, thief, ask).Refusal == "",
		"a proof by somebody else":               member("c").Answer(now, "a", ask).Refusal == "",
		"a proof, back to who made it":           a.Answer(now, "b", ask).Refusal == "",
		"a token from who has only seen it used": b.Answer(now, thief, asked).Refusal == "",
		"an answer for somebody else":            y.Judge(now, "b", asked, answer) == nil,
		"an answer from somebody else":           x.Judge(now, thief, asked, answer) == nil,
	} {
		if taken {
			t.Errorf("it was taken: %s", what)
		}
	}
	answer.Secret[5]++
	if err := x.Judge(now, "b", asked, answer); err == nil || !x.Ring.IsZero() {
		t.Error("a secret was taken that no member gave")
	}
}

// filled is a register without room, of tokens that are good for ten seconds.
func filled() *Register {
	r := NewRegister()
	for i := range 1000 {
		u := Used{ID: [ticket.IDSize]byte{byte(i), byte(i >> 8)}, Expires: now + 10}
		for p := range 10 {
			u.Peers = append(u.Peers, slot.PeerID(fmt.Sprint(i, "-", p)))
		}
		r.Merge(now, Told{Used: []Used{u}})
	}
	return r
}

// A register without room forgets nothing, in memory or when it is read again, but admits nobody.
func TestAFullRegisterAdmitsNobody(t *testing.T) {
	r := filled()
	if r.lost != now+10 {
		t.Errorf("what had no room expires at %d", r.lost)
	}
	b := r.Told().Append(nil)
	if len(b) > usedRoom+12 || len(b) < usedRoom-1000 {
		t.Errorf("%d bytes of %d", len(b), usedRoom)
	}
	told, err := ParseTold(b)
	if err != nil || !reflect.DeepEqual(told, r.Told()) || !r.Within(told) {
		t.Fatalf("it is read as another one: %v", err)
	}
	again := NewRegister()
	again.Merge(now, told)
	other := [ticket.IDSize]byte{0xff, 0xff}
	for _, r := range []*Register{r, again} {
		for id, p := range map[[ticket.IDSize]byte]slot.PeerID{other: "x", {0}: "another"} {
			if err := r.use(now, Ask{ID: id, Expires: now + 10, Uses: 100}, p); !errors.Is(err, errFull) {
				t.Errorf("one more: %v", err)
			}
		}
		if err := r.use(now, Ask{ID: [ticket.IDSize]byte{0}, Expires: now + 10, Uses: 10}, "0-3"); err != nil {
			t.Errorf("one that was admitted: %v", err)
		}
		if err := r.use(now+1000, Ask{ID: other, Expires: now + 2000, Uses: 1}, "x"); err != nil ||
			len(r.tokens) != 1 || r.size != 29+4 {
			t.Errorf("when the others have expired: %v, %d tokens in %d bytes", err, len(r.tokens), r.size)
		}
	}
}

func TestATokenOfManyPeersIsBounded(t *testing.T) {
	u := Used{Expires: now}
	for i := range ticket.MaxUses {
		u.Peers = append(u.Peers, slot.PeerID(fmt.Sprintf("%0100d", i)))
	}
	r := NewRegister()
	r.Merge(now, Told{Used: []Used{u}})
	if len(r.Told().Append(nil)) > MaxAnswer || r.lost != now {
		t.Errorf("%d bytes, lost %d", r.size, r.lost)
	}
}

// What there was no room for is not forgotten when there is room again.
func TestWhatHadNoRoomIsNoNews(t *testing.T) {
	r, lost := filled(), [ticket.IDSize]byte{0xff, 0xff}
	r.Merge(now, Told{Used: []Used{{ID: lost, Expires: now + 5000, Peers: []slot.PeerID{"x"}}}})
	if err := r.use(now+1000, Ask{ID: lost, Expires: now + 5000, Uses: 1}, "y"); !errors.Is(err, errFull) {
		t.Errorf("a token that was used: %v", err)
	}
	if err := r.use(now+1000, Ask{ID: lost, Expires: now + 5001, Uses: 1}, "y"); err != nil {
		t.Errorf("one that lasts longer than all that had no room: %v", err)
	}
	if err := r.use(now+6000, Ask{ID: lost, Expires: now + 6000, Uses: 5}, "y"); err != nil || r.lost != 0 {
		t.Errorf("when all that have expired: %v", err)
	}
}

func TestTokensThatLastTooLong(t *testing.T) {
	r, far := NewRegister(), Used{ID: [ticket.IDSize]byte{1}, Expires: now + maxLife + 1, Peers: []slot.PeerID{"x"}}
	if r.Merge(now, Told{Lost: 1 << 63, Used: []Used{
		far,
		{ID: [ticket.IDSize]byte{2}, Expires: 1<<64 - 1, Peers: far.Peers},
	}}); len(r.tokens) > 0 ||
		r.lost > now+maxLife {
		t.Errorf("%d are noted", len(r.tokens))
	}
	if err := NewRegister().use(now, Ask{ID: far.ID, Expires: far.Expires, Uses: 1}, "x"); !errors.Is(err, errEndless) {
		t.Error(err)
	}
}

// A use counts for as long as any member might take the token, and whatever others say of its
// expiry.
func TestAUseCountsUntilTheGraceIsOver(t *testing.T) {
	used := Used{ID: [ticket.IDSize]byte{1}, Expires: now, Peers: []slot.PeerID{"x"}}
	ask := Ask{ID: used.ID, Expires: now, Uses: 1}
	r := NewRegister()
	r.Merge(now+tolerance, Told{Used: []Used{used}})
	if err := r.use(now+tolerance, ask, "y"); !errors.Is(err, errUsedUp) {
		t.Errorf("told of after it has expired: %v", err)
	}
	r, ask.Expires = NewRegister(), now+1000
	r.Merge(now, Told{Used: []Used{used}})
	if err := r.use(now, ask, "x"); err != nil {
		t.Error(err)
	}
	if err := r.use(now+500, ask, "y"); !errors.Is(err, errUsedUp) {
		t.Errorf("told of with an earlier expiry: %v", err)
	}
}

func TestSecretText(t *testing.T) {
	s, other := Secret{1, 0xff}, Secret{2}
	if s.Rendezvous("a") == s.Rendezvous("b") || s.Rendezvous("a") == other.Rendezvous("a") {
		t.Error("a rendezvous that is not of one secret and one run")
	}
	if got, err := ParseSecret(" " + s.Text() + "\n"); err != nil || got != s {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"", "ab", strings.Repeat("0", 64), s.Text() + "00"} {
		if _, err := ParseSecret(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if text := fmt.Sprintf("%v %+v %x %s", s, s, s, struct{ S Secret }{s}); strings.Contains(text, "ff") ||
		strings.Contains(text, "255") {
		t.Errorf("it shows: %s", text)
	}
}

func FuzzMessages(f *testing.F) {
	x, m := newcomer("x", 3, now), member("b")
	for _, asked := range []Ask{m.Ask("c", 0), x.Ask("b", 0)} {
		f.Add(asked.Append(nil))
		f.Add(m.Answer(now, "x", asked).Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := ParseAsk(b); err == nil && string(a.Append(nil)) != string(b) {
			t.Errorf("%x is read as %+v", b, a)
		} else if err == nil && member("b").Answer(now, "z", a).Refusal == "" {
			t.Errorf("%x admits z", b)
		}
		if a, err := ParseAnswer(b); err == nil && string(a.Append(nil)) != string(b) {
			t.Errorf("%x is read as %+v", b, a)
		}
	})
}
