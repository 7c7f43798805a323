package slot

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
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
	cases := []struct {
		name    string
		record  Record
		typ     MessageType
		voters  []Member
		signers string
		spoil   func(*Certificate)
		ok      bool
	}{
		{name: "all", record: step, typ: TypeVote, voters: electorate, signers: "abcd", ok: true},
		{name: "more than half", record: step, typ: TypeVote, voters: electorate, signers: "abc", ok: true},
		{name: "half with the senior", record: step, typ: TypeVote, voters: electorate, signers: "ad", ok: true},
		{name: "half without the senior", record: step, typ: TypeVote, voters: electorate, signers: "ab"},
		{name: "below half", record: step, typ: TypeVote, voters: electorate, signers: "d"},
		{name: "nobody", record: step, typ: TypeVote, voters: electorate},
		{name: "a stranger among them", record: step, typ: TypeVote, voters: electorate, signers: "abcx"},
		{name: "fork signatures on a step", record: step, typ: TypeFork, voters: electorate, signers: "abcd"},
		{name: "no electorate", record: step, typ: TypeVote},
		{
			name: "one signature counted twice", record: step, typ: TypeVote, voters: electorate, signers: "ab",
			spoil: func(c *Certificate) { c.Signatures = append(c.Signatures, c.Signatures[0], c.Signatures[1]) },
		},
		{
			name: "a wrong signature besides a quorum", record: step, typ: TypeVote, voters: electorate,
			signers: "abcd",
			spoil:   func(c *Certificate) { c.Signatures[1].Sig[0]++ },
		},
		{
			name: "another's signature", record: step, typ: TypeVote, voters: electorate, signers: "abc",
			spoil: func(c *Certificate) { c.Signatures[0].Sig = c.Signatures[1].Sig },
		},
		{
			name: "votes of another ballot", record: step, typ: TypeVote, voters: electorate, signers: "abcd",
			spoil: func(c *Certificate) { c.Ballot++ },
		},
		{
			name: "another record", record: step, typ: TypeVote, voters: electorate, signers: "abcd",
			spoil: func(c *Certificate) { c.Hash[0]++ },
		},
		{
			name: "another height", record: step, typ: TypeVote, voters: electorate, signers: "abcd",
			spoil: func(c *Certificate) { c.Height++ },
		},
		{
			name: "another record before", record: step, typ: TypeVote, voters: electorate, signers: "abcd",
			spoil: func(c *Certificate) { c.Prev[0]++ },
		},
		{name: "fork by all it lists", record: fork, typ: TypeFork, voters: fork.Members, signers: "ab", ok: true},
		{name: "fork by a quorum only", record: fork, typ: TypeFork, voters: fork.Members, signers: "b"},
		{name: "fork by the old members", record: fork, typ: TypeFork, voters: electorate, signers: "abcd"},
		{name: "fork with plain votes", record: fork, typ: TypeVote, voters: fork.Members, signers: "ab"},
		{name: "fork that lists nobody", record: Genesis(Hash([]byte("run"))), typ: TypeFork},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cert := certify(c.record, c.typ, c.voters, c.signers)
			if c.spoil != nil {
				c.spoil(&cert)
			}
			err := cert.Verify(c.record, electorateOf(c.record, c.voters), Majority, fakeVerify)
			if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrCertificate) {
				t.Errorf("got %v", err)
			}
		})
	}
	// The member is the incarnation, too: a vote of an earlier one does not count.
	old := certify(step, TypeVote, electorate, "abcd")
	again := slices.Clone(electorate)
	again[0].Incarnation++
	if old.Verify(step, again, Majority, fakeVerify) == nil {
		t.Error("the signature of another incarnation counted")
	}
}

// electorateOf gives a fork the voters of a foreign electorate, which must not matter.
func electorateOf(c Record, voters []Member) []Member {
	if c.Kind == Fork {
		return members("wxyz")
	}
	return voters
}

func TestSignedBytesKeepApart(t *testing.T) {
	run := Hash([]byte("run"))
	base := SignedBytes(TypeVote, run, "p", 1, []byte("body"))
	for name, b := range map[string][]byte{
		"type":        SignedBytes(TypeFork, run, "p", 1, []byte("body")),
		"run":         SignedBytes(TypeVote, Root{}, "p", 1, []byte("body")),
		"peer":        SignedBytes(TypeVote, run, "q", 1, []byte("body")),
		"incarnation": SignedBytes(TypeVote, run, "p", 2, []byte("body")),
		"body":        SignedBytes(TypeVote, run, "p", 1, []byte("bodx")),
	} {
		if bytes.Equal(base, b) {
			t.Errorf("another %s has the same signed bytes", name)
		}
	}
}

func TestMajority(t *testing.T) {
	cases := []struct {
		members, in string
		want        bool
	}{
		{"", "", false},
		{"a", "a", true},
		{"a", "", false},
		{"ab", "ab", true},
		{"ab", "b", true},
		{"ab", "a", false}, // b is the senior
		{"abc", "ab", true},
		{"abc", "c", false},
		{"abc", "bc", true},
		{"abcd", "abc", true},
		{"abcd", "cd", true},
		{"abcd", "ab", false},
		{"abcd", "d", false},
		{"abcde", "abc", true},
		{"abcde", "de", false},
	}
	for _, c := range cases {
		in := func(m Member) bool { return bytes.Contains([]byte(c.in), []byte(m.Peer)) }
		if got := Majority(members(c.members), in); got != c.want {
			t.Errorf("%q of %q: %v", c.in, c.members, got)
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

func TestLeaderOrder(t *testing.T) {
	first := map[PeerID]int{}
	rapid.Check(t, func(t *rapid.T) {
		ms := members("abcdefgh"[:rapid.IntRange(0, 8).Draw(t, "n")])
		before := slices.Clone(ms)
		run, height := genRoot(t), rapid.Uint64().Draw(t, "height")
		order := LeaderOrder(run, height, ms)
		if !slices.Equal(ms, before) {
			t.Fatal("the members were reordered in place")
		}
		sorted := slices.SortedFunc(slices.Values(order),
			func(a, b Member) int { return bytes.Compare([]byte(a.Peer), []byte(b.Peer)) })
		if !slices.Equal(sorted, before) {
			t.Fatalf("%v is no permutation of %v", order, before)
		}
		if !slices.Equal(order, LeaderOrder(run, height, ms)) {
			t.Fatal("not a function of its arguments")
		}
	})
	for i := range 200 {
		first[LeaderOrder(Root{}, uint64(i), members("abcd"))[0].Peer]++
	}
	if len(first) != 4 {
		t.Errorf("first places: %v", first)
	}
}
