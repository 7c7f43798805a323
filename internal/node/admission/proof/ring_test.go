package proof

import (
	"errors"
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

// ringOf is a ring of secrets, a letter each: those in force, the newest first, and those to come.
func ringOf(text string) Ring {
	inForce, next, _ := strings.Cut(text, "|")
	return Ring{line: line([]byte(inForce)...), next: line([]byte(next)...)}
}

func (r Ring) text() string {
	var b []byte
	for _, s := range r.line {
		b = append(b, s[0])
	}
	b = append(b, '|')
	for _, s := range r.next {
		b = append(b, s[0])
	}
	return string(b)
}

// Which secrets are in force, and which may come, after one is put in force, a ticket brings one,
// which leads, or another copy of the ring is joined. A peer that has lost the secrets in force,
// and still has those that may come, keeps these, wherever it gets the others from.
func TestRings(t *testing.T) {
	for _, c := range []struct{ ring, do, want string }{
		{"a|bcd", "enforce c", "ca|bd"},
		{"a|bcd", "enforce c, enforce d, enforce a", "a|bcd"},
		{"a|bcd", "enforce d, enforce a, enforce d", "da|bc"}, // what was gone back from
		{"a|b", "enforce x", "a|b"},
		{"ba|cd", "lead c", "cba|d"},
		{"ba|cd", "lead a", "ba|cd"},
		{"|", "join a", "a|"},
		{"a|", "join a", "a|"},
		{"ba|", "join a", "ba|"},
		{"a|", "join ba", "ba|"},
		{"ba|", "join cb", "cba|"},
		{"b|", "join cba", "cba|"},
		{"ba|", "join ca, another run", "ba|"},
		{"a|", "join x, another run", "a|"},
		{"a|bc", "join ba", "ba|c"},
		{"|bac", "join a", "a|bc"},
	} {
		r, same := ringOf(c.ring), true
		for what := range strings.SplitSeq(c.do, ", ") {
			switch verb, of, _ := strings.Cut(what, " "); verb {
			case "enforce":
				r = r.Enforce(Secret{of[0]})
			case "lead":
				r = r.Lead(Secret{of[0]})
			case "join":
				r, same = r.Join(ringOf(of))
			}
		}
		if other := strings.HasSuffix(c.do, "another run"); r.text() != c.want || same == other {
			t.Errorf("%s, %s: %s, of one run: %v; want %s", c.ring, c.do, r.text(), same, c.want)
		}
	}
	r := ringOf("ca|bd")
	if s, ok := r.Find(books, slot.Root{}); !ok || s != (Secret{'a'}) {
		t.Error("the founding secret is another one")
	}
	for s, inForce := range map[Secret]bool{{'c'}: true, {'a'}: true, {'b'}: false} {
		key := s.Commitment(books)
		if got, ok := r.Find(books, key); !ok || got != s || r.InForce(books, key) != inForce {
			t.Errorf("%x is found: %v", s[0], ok)
		}
	}
	if _, ok := (Ring{}).Find(books, slot.Root{}); ok {
		t.Error("an empty ring holds the founding secret")
	}
	r = ringOf("cba|defghijklm")
	if tried, asks := r.tried(), r.asks(); !slices.Equal(tried, line([]byte("cfghijklmba")...)) ||
		!slices.Equal(asks, line([]byte("cba")...)) {
		t.Errorf("%d are tried, %d asked with", len(tried), len(asks))
	}
	x := newcomer("n1", 1, now+60)
	x.Ring = ringOf("|bac")
	if admitted, err := meet(t, x, peer(t, "m2", []Secret{{1, 2, 3}})); !admitted || err != nil ||
		x.Ring.text() != "\x01|bac" {
		t.Errorf("with a ticket: admitted %v, %v; %q", admitted, err, x.Ring.text())
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
