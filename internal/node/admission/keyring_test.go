package admission

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// guardOn makes a guard with its files on a disk, of a run that was founded with a secret.
func guardOn(t *testing.T, fsys *powerfs.FS) *Guard {
	t.Helper()
	files := Files{FS: fsys, Dir: "/data"}
	must(t, disk.MakeDir(fsys, files.Dir))
	ring, err := files.loadRing()
	must(t, err)
	if ring.IsZero() {
		ring = proof.NewRing(proof.Secret{1})
		must(t, files.createSecret(ring.Current()))
	}
	g, err := NewGuard(Config{
		Self: "me", Run: "books", Files: files, Credentials: &Credentials{ring: ring},
		Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	g.SetRun(slot.Root{7})
	return g
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// proposed is a candidate's commitment that a record is about to bring.
func proposed(t *testing.T, g *Guard) slot.Root {
	t.Helper()
	key, err := g.Candidate()
	must(t, err, g.Hold(t.Context(), key, nil))
	return key
}

// everyone has been a member, but for those whose names begin with n; those with r were removed.
func everyone(p slot.PeerID) proof.Access {
	return proof.Access{Ever: p[0] != 'n', Removed: p[0] == 'r', Why: "removed"}
}

func TestACandidateIsMadeOnce(t *testing.T) {
	g := guardOn(t, powerfs.New())
	a, err := g.Candidate()
	if err != nil || a.IsZero() || g.Holds(a) {
		t.Fatal(err)
	}
	if again, err := g.Candidate(); again != a || err != nil {
		t.Errorf("again: %v", err)
	}
	if err := g.Hold(t.Context(), a, nil, "r1"); err != nil || !g.Holds(a) {
		t.Fatalf("proposed: %v", err)
	}
	b, err := g.Candidate()
	if b == a || err != nil {
		t.Errorf("when it has been proposed: %v", err)
	}
	must(t, g.Follow(a, everyone))
	if c, err := g.Candidate(); c != b || err != nil {
		t.Errorf("after a rotation: %v", err)
	}
}

// A peer that is started often leaves no secret behind that nobody has heard of, and loses none
// that was proposed.
func TestCandidatesOfManyStarts(t *testing.T) {
	fsys := powerfs.New()
	g := guardOn(t, fsys)
	key := proposed(t, g)
	for seed := range uint64(3) {
		if _, err := g.Candidate(); err != nil {
			t.Fatal(err)
		}
		fsys = fsys.Restart(seed)
		g = guardOn(t, fsys)
	}
	if next := g.ring().Next(); len(next) != 1 || !g.Holds(key) {
		t.Errorf("%d secrets are kept", len(next))
	}
}

// A secret that a peer may have got is no good for putting it out.
func TestASecretIsNotProposedToPutOutWhoMayKnowIt(t *testing.T) {
	g := guardOn(t, powerfs.New())
	key, err := g.Candidate()
	must(t, err)
	for i, c := range []struct {
		without []slot.PeerID
		want    error
	}{
		{[]slot.PeerID{"m1"}, nil},
		{[]slot.PeerID{"m1"}, nil},
		{nil, nil},
		{[]slot.PeerID{"m2"}, proof.ErrShared},
		{[]slot.PeerID{"m1", "m2"}, proof.ErrShared},
		{[]slot.PeerID{"m1"}, nil},
	} {
		if err := g.Hold(t.Context(), key, nil, c.without...); !errors.Is(err, c.want) {
			t.Errorf("%d: %v, want %v", i, err, c.want)
		}
	}
	must(t, g.Follow(key, everyone))
	if err := g.Hold(t.Context(), key, nil, "m2"); err != nil {
		t.Errorf("in force: %v", err)
	}
}

// A peer that gives no proof may know only an older secret. The next Ask to it uses that one.
func TestAskingWithOlderSecrets(t *testing.T) {
	g, other := guardOn(t, powerfs.New()), guardOn(t, powerfs.New())
	g.mu.Self, other.mu.Self = "m1", "m2"
	key := proposed(t, g)
	must(t, g.Follow(key, everyone), other.Follow(slot.Root{}, everyone))
	for i, want := range []bool{false, true, false} { // once it is in, the newest is tried first
		ask := g.Ask("m2")
		answer, admitted := other.Answer("m1", ask)
		if err := g.Judge("m2", ask, answer); admitted != want || (err == nil) != want {
			t.Errorf("try %d: admitted %v, %v", i, admitted, err)
		}
	}
}

// A peer that came by a ticket, and was no member yet when the secret changed, is refused with that
// ticket for ever. It is admitted with another ticket, and writes the new secret to disk before it
// uses it.
func TestATicketBringsTheNewerSecret(t *testing.T) {
	fsys := powerfs.New()
	g, other := guardOn(t, fsys), guardOn(t, powerfs.New())
	g.mu.Self, other.mu.Self = "n1", "m2"
	key := proposed(t, other)
	must(t, other.Follow(key, everyone))
	expires := time.Now().Add(time.Hour)
	token, err := other.NewToken(expires, 1)
	must(t, err)
	g.mu.Token, g.mu.Until = token, uint64(expires.Unix())
	for i, c := range []struct{ fails, admitted, in bool }{
		{},
		{fails: true, admitted: true},
		{admitted: true, in: true},
		{admitted: true, in: true},
	} {
		fsys.Plan(func(powerfs.Op) (f powerfs.Fault) {
			if c.fails {
				f.Err = syscall.EIO
			}
			return f
		})
		ask := g.Ask("m2")
		answer, admitted := other.Answer("n1", ask)
		if err := g.Judge("m2", ask, answer); admitted != c.admitted || (err == nil) != c.in || g.Holds(key) != c.in {
			t.Errorf("try %d: admitted %v, %v, in force %v", i, admitted, err, g.Holds(key))
		}
	}
	if line := guardOn(t, fsys.Restart(1)).ring().Line(); !slices.Equal(line,
		[]proof.Secret{other.ring().Current(), {1}}) {
		t.Errorf("%d secrets are in line on disk", len(line))
	}
}

// A peer that cannot get the secret in force still follows the set of members: it disconnects peers
// that were removed, and other peers can ask it.
func TestFollowing(t *testing.T) {
	g := guardOn(t, powerfs.New())
	before := g.places
	names := g.rendezvous()
	key := proposed(t, g)
	if err := g.Follow(slot.Root{9}, everyone); !errors.Is(err, errKeyNotHeld) || g.mu.AccessOf == nil ||
		g.ring().Current() != (proof.Secret{1}) {
		t.Errorf("a key that is not held: %v", err)
	}
	if err := g.Follow(key, everyone); err != nil || g.ring().Current().Commitment(slot.Root{7}) != key {
		t.Fatalf("%v", err)
	}
	if now := g.rendezvous(); len(now) != 2 || now[0] == names[0] || now[1] != names[0] || before != g.places {
		t.Errorf("it meets others at %q", now)
	}
	if err := g.Follow(slot.Root{}, everyone); err != nil || g.ring().Current() != (proof.Secret{1}) ||
		!g.Holds(key) || !slices.Equal(g.rendezvous(), names) {
		t.Errorf("back at the founding secret: %v", err)
	}
}

// A secret that is not on disk is neither in force nor held, whatever the disk does; and it is when
// it is written again.
func TestASecretThatIsNotWritten(t *testing.T) {
	for _, kind := range []powerfs.Kind{powerfs.Create, powerfs.Write, powerfs.Sync, powerfs.Rename, powerfs.SyncDir} {
		fsys := powerfs.New()
		g := guardOn(t, fsys)
		failing := func(op powerfs.Op) powerfs.Fault {
			if op.Kind == kind {
				return powerfs.Fault{Err: syscall.EIO}
			}
			return powerfs.Fault{}
		}
		fsys.Plan(failing)
		key, err := g.Candidate()
		must(t, err)
		if err := g.Hold(t.Context(), key, nil); !errors.Is(err, syscall.EIO) || len(g.ring().Next()) > 0 {
			t.Errorf("%s fails: %v, and it is held", kind, err)
		}
		fsys.Plan(func(powerfs.Op) powerfs.Fault { return powerfs.Fault{} })
		must(t, g.Hold(t.Context(), key, nil))
		fsys.Plan(failing)
		g.mu.refusals.tries["m1"] = 1
		if err := g.Follow(key, everyone); !errors.Is(err, syscall.EIO) ||
			g.ring().Current() != (proof.Secret{1}) || g.mu.refusals.tries["m1"] != 1 {
			t.Errorf("%s fails: %v, and it is in force", kind, err)
		}
		fsys.Plan(func(powerfs.Op) powerfs.Fault { return powerfs.Fault{} })
		if err := g.Follow(key, everyone); err != nil {
			t.Errorf("written again: %v", err)
		}
	}
}

// Wherever the power goes, no secret is lost that was held, nor what is in force.
func TestSecretsOutliveThePower(t *testing.T) {
	for n := 0; ; n++ {
		for cut := range 2 {
			fsys := powerfs.New()
			g := guardOn(t, fsys)
			_ = g.Follow(slot.Root{}, everyone)
			a := proposed(t, g)
			_ = g.Follow(a, everyone)
			b := proposed(t, g)
			from := fsys.Ops()
			fsys.CutAt(from+n, powerfs.Before+powerfs.Cut(cut))
			followed := g.Follow(b, everyone)
			if followed == nil {
				_ = g.Follow(slot.Root{}, everyone)
			}
			over := !fsys.Down()
			for seed := range uint64(4) {
				again := guardOn(t, fsys.Reboot(seed))
				if !again.Holds(a) || !again.Holds(b) || !again.Holds(slot.Root{}) ||
					again.ring().Line()[len(again.ring().Line())-1] != (proof.Secret{1}) {
					t.Fatalf("operation %d, cut %d, seed %d: a secret is gone", n, cut, seed)
				}
			}
			if over {
				return
			}
		}
	}
}

// Members get a secret that is in force. A secret that is not in force goes only to peers that the
// record does not remove.
func TestWhoIsGivenASecret(t *testing.T) {
	fsys := powerfs.New()
	g := guardOn(t, fsys)
	key, _ := g.Candidate()
	asked := func(g *Guard, what string, to slot.PeerID, key slot.Root, want error) {
		t.Helper()
		s, err := g.give(to, key)
		if !errors.Is(err, want) || (err == nil) != (s.Commitment(slot.Root{7}) == key) && !key.IsZero() {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	asked(g, "before the records are known", "m1", key, errKeyUnsure)
	_ = g.Follow(slot.Root{}, everyone)
	asked(g, "before it is proposed", "m1", key, errKeyUnknown)
	must(t, g.Hold(context.Background(), key, nil, "m2"))
	asked(g, "a member", "m1", key, nil)
	asked(g, "one that is being removed", "m2", key, errKeyUnknown)
	asked(g, "one that was removed", "r1", key, errKeyMembers)
	asked(g, "one that never was a member", "n1", key, errKeyMembers)
	asked(g, "a secret that is not held", "m1", slot.Root{5}, errKeyUnknown)
	again := guardOn(t, fsys.Restart(1))
	_ = again.Follow(slot.Root{}, everyone)
	asked(again, "after a restart", "m1", key, errKeyUnknown)
	must(t, again.Hold(context.Background(), key, nil, "m2"))
	asked(again, "when it is proposed again", "m1", key, nil)
	asked(again, "though not to all", "m2", key, errKeyUnknown)
	must(t, again.Follow(key, everyone))
	asked(again, "in force", "m2", key, nil)
}

// A copy of another peer's secrets may be newer or older than the own ones.
func TestACopyOfSecrets(t *testing.T) {
	one, two, three := proof.Secret{1}, proof.Secret{2}, proof.Secret{3}
	for what, c := range map[string]struct {
		kept, given, want []proof.Secret
		err               string
	}{
		"an older copy":  {[]proof.Secret{two, one}, []proof.Secret{one}, []proof.Secret{two, one}, ""},
		"a newer copy":   {[]proof.Secret{one}, []proof.Secret{two, one}, []proof.Secret{two, one}, ""},
		"another run's":  {[]proof.Secret{two, one}, []proof.Secret{three}, nil, "different admission secrets"},
		"a first secret": {nil, []proof.Secret{two, one}, []proof.Secret{two, one}, ""},
	} {
		files := Files{FS: disk.OS, Dir: t.TempDir()}
		for name, secrets := range map[string][]proof.Secret{SecretFile: c.kept, "given": c.given} {
			must(t, files.replaceSecrets(name, secrets, nil))
		}
		_, err := Search{
			Files: files, Secret: files.path("given"), Given: spec.Spec{Name: "sim"},
			Logger: slog.New(slog.DiscardHandler),
		}.Find()
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", what, err)
		}
		if kept, _ := files.loadRing(); err == nil && !slices.Equal(kept.Line(), c.want) {
			t.Errorf("%s: %d secrets are kept", what, len(kept.Line()))
		}
	}
}
