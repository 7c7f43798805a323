package proof

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

var books = slot.Root{0xb0}

// held is a ring that holds secrets 1 to n, whose first is the current one of the others.
func held(t *testing.T, r Ring, next ...byte) Ring {
	t.Helper()
	for _, b := range next {
		var err error
		if r, err = r.With(Secret{b}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// line is secrets, by their first byte.
func line(of ...byte) (all []Secret) {
	for _, b := range of {
		all = append(all, Secret{b})
	}
	return all
}

func TestACommitmentIsOfOneSecretAndOneRun(t *testing.T) {
	c := Secret{1}.Commitment(books)
	if c != (Secret{1}).Commitment(books) || c == (Secret{2}).Commitment(books) ||
		c == (Secret{1}).Commitment(slot.Root{}) || c == (slot.Root{1}) || c.IsZero() {
		t.Errorf("%s", c)
	}
}

func TestRotation(t *testing.T) {
	r := held(t, NewRing(line(1)...), 2, 3, 4)
	three := Secret{3}.Commitment(books)
	if s, ok := r.Find(books, three); !ok || s != (Secret{3}) || r.InForce(books, three) {
		t.Errorf("%v, %v", s, ok)
	}
	rotated := r.Enforce(Secret{3})
	if r.Current() != (Secret{1}) || len(r.next) != 3 {
		t.Error("the ring from before has changed")
	}
	if !slices.Equal(rotated.line, line(3, 1)) || !slices.Equal(rotated.next, line(2, 4)) || rotated.stale != 1 ||
		!rotated.InForce(books, three) {
		t.Errorf("%+v", rotated)
	}
	if s, ok := rotated.Find(books, slot.Root{}); !ok || s != (Secret{1}) {
		t.Error("the founding secret is another one")
	}
	back := rotated.Enforce(Secret{4}).Enforce(Secret{1})
	if !slices.Equal(back.line, line(1)) || !slices.Equal(back.next, line(2, 3, 4)) {
		t.Errorf("back at the founding one: %+v", back)
	}
	if again := back.Enforce(Secret{4}); again.Current() != (Secret{4}) {
		t.Errorf("what was gone back from: %+v", again)
	}
	if same := rotated.Enforce(Secret{9}); !reflect.DeepEqual(same, rotated) {
		t.Errorf("one that is not held: %+v", same)
	}
	if _, ok := (Ring{}).Find(books, slot.Root{}); ok {
		t.Error("an empty ring holds the founding secret")
	}
}

// What may still come into force is not dropped for others: the run could lose its secret.
func TestNextIsBounded(t *testing.T) {
	number := func(i int) Secret { return Secret{1, byte(i), byte(i >> 8)} }
	r := NewRing(line(1)...)
	for i := range maxNext {
		r, _ = r.With(number(i + 1))
	}
	if _, err := r.With(Secret{2}); !errors.Is(err, errNextFull) {
		t.Fatalf("one more: %v", err)
	}
	if again, err := r.With(number(5)); err != nil || len(again.next) != maxNext {
		t.Errorf("one that is held: %v", err)
	}
	r = r.Enforce(number(3)) // two came before it
	for i := range 3 {
		var err error
		if r, err = r.With(Secret{3, byte(i)}); err != nil {
			t.Fatalf("%d more: %v", i, err)
		}
	}
	if _, err := r.With(Secret{4}); !errors.Is(err, errNextFull) || len(r.next) != maxNext || r.next[0] != number(4) {
		t.Errorf("%v; %d are held", err, len(r.next))
	}
	if len(Text(r.next)) > MaxRingText {
		t.Error("they do not fit their file")
	}
}

// Between two writes the file holds what comes and what goes for it.
func TestAFileWithOneTooMany(t *testing.T) {
	var all []Secret
	for i := range maxNext + 1 {
		all = append(all, Secret{2, byte(i), byte(i >> 8)})
	}
	if r := NewRing(line(1)...).Restore(all); !slices.Equal(r.next, all[1:]) {
		t.Errorf("%d are held", len(r.next))
	}
	if r := NewRing(all[5]).Restore(all); len(r.next) != maxNext || slices.Contains(r.next, all[5]) {
		t.Errorf("with the one in force %d are held", len(r.next))
	}
}

// A secret that a ticket brings is in front, whether it was held or not.
func TestASecretThatLeads(t *testing.T) {
	r := held(t, NewRing(line(2, 1)...), 3, 4).Lead(Secret{3})
	if !slices.Equal(r.line, line(3, 2, 1)) || !slices.Equal(r.next, line(4)) {
		t.Errorf("%+v", r)
	}
	if again := r.Lead(Secret{1}); !reflect.DeepEqual(again, r) {
		t.Errorf("an older one: %+v", again)
	}
}

func TestALongLineKeepsItsEnds(t *testing.T) {
	r := NewRing(line(1)...)
	var before Secret
	for i := range 2 * maxOlder {
		before = r.Current()
		s := Secret{2, byte(i), byte(i >> 8)}
		r, _ = r.With(s)
		r = r.Enforce(s)
	}
	if len(r.line) != 1+maxOlder || r.line[maxOlder] != (Secret{1}) || r.line[1] != before {
		t.Errorf("%d in line", len(r.line))
	}
	if len(r.tried()) != 1+triedOlder || len(r.asks()) != 1+triedOlder || len(Text(r.line)) > MaxRingText {
		t.Errorf("%d are tried", len(r.tried()))
	}
}

func TestWhatIsTried(t *testing.T) {
	r := held(t, NewRing(line(3, 2, 1)...), 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
	if got := r.tried(); !slices.Equal(got, line(3, 12, 13, 14, 15, 16, 17, 18, 19, 2, 1)) {
		t.Errorf("%d: %v", len(got), got)
	}
	if got := r.asks(); !slices.Equal(got, line(3, 2, 1)) {
		t.Errorf("%d asked with", len(got))
	}
}

func TestJoinedRings(t *testing.T) {
	for _, c := range []struct {
		kept, given, want []Secret
		same              bool
	}{
		{nil, line(1), line(1), true},
		{line(1), line(1), line(1), true},
		{line(2, 1), line(1), line(2, 1), true},
		{line(1), line(2, 1), line(2, 1), true},
		{line(2, 1), line(3, 2), line(3, 2, 1), true},
		{line(2), line(3, 2, 1), line(3, 2, 1), true},
		{line(2, 1), line(3, 1), line(2, 1), false},
		{line(1), line(9), line(1), false},
	} {
		got, same := NewRing(c.kept...).Join(NewRing(c.given...))
		if !slices.Equal(got.line, c.want) || same != c.same {
			t.Errorf("%v and %v: %v, %v", c.kept, c.given, got.line, same)
		}
	}
	kept := held(t, NewRing(line(1)...), 2, 3)
	if got, _ := kept.Join(NewRing(line(2, 1)...)); !slices.Equal(got.next, line(3)) {
		t.Errorf("what came into force is still to come: %+v", got)
	}
}

// A peer that has lost the secrets in force, and still has those that may come into force, keeps
// these, wherever it gets the others from.
func TestSecretsToComeOutliveThoseInForce(t *testing.T) {
	kept := held(t, Ring{}, 2, 1, 3)
	if got, same := kept.Join(NewRing(line(1)...)); !same || !slices.Equal(got.line, line(1)) ||
		!slices.Equal(got.next, line(2, 3)) {
		t.Errorf("from a copy: %v, %+v", same, got)
	}
	x := newcomer("n1", 1, now+60)
	x.Ring = kept
	if admitted, err := meet(t, x, peer(t, "m2", []Secret{{1, 2, 3}})); !admitted || err != nil ||
		x.Ring.Current() != (Secret{1, 2, 3}) || !slices.Equal(x.Ring.next, kept.next) {
		t.Errorf("with a ticket: admitted %v, %v; %+v", admitted, err, x.Ring)
	}
}

func TestSecretsInAFile(t *testing.T) {
	all := line(3, 2, 1)
	if got, err := ParseSecrets("\n " + Text(all) + Text(all[2:]) + "\n"); err != nil || !slices.Equal(got, all) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := ParseSecrets(""); err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"x", all[0].Text() + "ab", strings.Repeat(all[0].Text(), 2000)} {
		if _, err := ParseSecrets(bad); err == nil {
			t.Errorf("%d bytes are taken", len(bad))
		}
	}
}
