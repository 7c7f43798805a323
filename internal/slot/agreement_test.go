package slot

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// fakeSign stands for a signature: nobody but the peer is meant to make it.
func fakeSign(p PeerID, data []byte) []byte {
	h := Hash(append([]byte(p+"|"), data...))
	return h[:]
}

func fakeVerify(p PeerID, data, sig []byte) bool { return bytes.Equal(fakeSign(p, data), sig) }

func members(names string) (ms []Member) {
	for i, n := range names {
		since := uint64(len(names) - i)
		ms = append(ms, Member{PeerID(string(n)), Incarnation(100 + i), since, since, 0})
	}
	return ms
}

func TestCertificateVerify(t *testing.T) {
	// Of a, b, c, d the last is the senior: members gives the oldest seat to the last.
	electorate := members("abcd")
	step := Record{Run: Hash([]byte("run")), Height: 5, Kind: Step, Prev: Hash([]byte("prev")), Members: members("ab")}
	fork := step
	fork.Kind = Fork
	certify := func(c Record, typ MessageType, voters []Member, signers string) Certificate {
		cert := Certificate{Vote: Vote{Ref{c.Height, c.Prev, 3}, c.Hash()}}
		for _, s := range signers {
			p := PeerID(string(s))
			inc := Incarnation(0)
			if i := Find(voters, p); i >= 0 {
				inc = voters[i].Incarnation
			}
			cert.Signatures = append(cert.Signatures,
				Signature{p, fakeSign(p, SignedBytes(typ, c.Run, p, inc, cert.Vote.Append(nil)))})
		}
		return cert
	}
	check := func(name string, cert Certificate, c Record, electorate []Member, ok bool) {
		t.Helper()
		err := cert.Verify(c, electorate, Majority, fakeVerify)
		if (err == nil) != ok || err != nil && !errors.Is(err, ErrCertificate) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for signers, ok := range map[string]bool{
		"abcd": true, "abc": true, "ad": true, "ab": false, "d": false, "": false, "abcx": false,
	} {
		check("a step by "+signers, certify(step, TypeVote, electorate, signers), step, electorate, ok)
	}
	for name, spoil := range map[string]func(*Certificate){
		"one signature counted twice": func(c *Certificate) {
			c.Signatures = append(c.Signatures[:2], c.Signatures[0], c.Signatures[1])
		},
		"a wrong signature besides a quorum": func(c *Certificate) { c.Signatures[1].Sig[0]++ },
		"another's signature":                func(c *Certificate) { c.Signatures[0].Sig = c.Signatures[1].Sig },
		"votes of another ballot":            func(c *Certificate) { c.Ballot++ },
		"another record":                     func(c *Certificate) { c.Hash[0]++ },
		"another height":                     func(c *Certificate) { c.Height++ },
		"another record before":              func(c *Certificate) { c.Prev[0]++ },
	} {
		cert := certify(step, TypeVote, electorate, "abcd")
		spoil(&cert)
		check(name, cert, step, electorate, false)
	}
	check("fork signatures on a step", certify(step, TypeFork, electorate, "abcd"), step, electorate, false)
	check("no electorate", certify(step, TypeVote, nil, ""), step, nil, false)
	again := slices.Clone(electorate)
	again[0].Incarnation++
	check("votes of another incarnation", certify(step, TypeVote, electorate, "abcd"), step, again, false)

	check("a fork by all it lists", certify(fork, TypeFork, fork.Members, "ab"), fork, members("wxyz"), true)
	check("a fork by a quorum only", certify(fork, TypeFork, fork.Members, "b"), fork, fork.Members, false)
	check("a fork by the old members", certify(fork, TypeFork, electorate, "abcd"), fork, electorate, false)
	check("a fork with plain votes", certify(fork, TypeVote, fork.Members, "ab"), fork, fork.Members, false)
	nobody := Genesis(Hash([]byte("run")))
	check("a fork that lists nobody", certify(nobody, TypeFork, nil, ""), nobody, electorate, false)
}

func TestMajority(t *testing.T) {
	for cases, want := range map[string]bool{
		"a/a ab/ab ab/b abc/ab abc/bc abcd/abc abcd/cd abcde/abc": true, // the last is the senior
		"/ a/ ab/a abc/c abcd/ab abcd/d abcde/de":                 false,
	} {
		for c := range strings.FieldsSeq(cases) {
			all, in, _ := strings.Cut(c, "/")
			got := Majority(members(all), func(m Member) bool { return strings.Contains(in, string(m.Peer)) })
			if got != want {
				t.Errorf("%q of %q: %v", in, all, got)
			}
		}
	}
	if s := Senior([]Member{{"a", 0, 1, 4, 9}, {"b", 0, 3, 2, 0}, {"c", 0, 2, 2, 0}}); s.Peer != "b" {
		t.Errorf("senior %s", s.Peer)
	}
}

// Two quorums of one set of members always share one: what agreement rests on.
func TestMajoritiesMeet(t *testing.T) {
	for n := 1; n <= 7; n++ {
		ms := members("abcdefg"[:n])
		for x := range 1 << n {
			has := func(set int) func(Member) bool {
				return func(m Member) bool { return set>>(m.Peer[0]-'a')&1 == 1 }
			}
			y := 1<<n - 1 - x
			if Majority(ms, has(x)) && Majority(ms, has(y)) {
				t.Fatalf("%d members: %b and %b are both quorums", n, x, y)
			}
		}
	}
}

// Each member leads in turn, in an order that depends on run and height alone.
func TestLeaderOrder(t *testing.T) {
	ms, first := members("abcdef"), map[PeerID]int{}
	for height := range uint64(200) {
		order, names := LeaderOrder(fill(0x22), height, ms), ""
		for _, m := range order {
			names += string(m.Peer)
		}
		if height == 7 && names != "acedfb" {
			t.Errorf("ballots are led in the order %s", names)
		}
		first[order[0].Peer]++
		slices.SortFunc(order, func(a, b Member) int { return strings.Compare(string(a.Peer), string(b.Peer)) })
		if !slices.Equal(order, members("abcdef")) || !slices.Equal(order, ms) {
			t.Fatalf("%s is no permutation of %v", names, ms)
		}
	}
	if len(first) != 6 || len(LeaderOrder(Root{}, 1, nil)) != 0 {
		t.Errorf("first places: %v", first)
	}
}
