package p2pdiloco

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// doormanOn is one with its files on a disk, of a run that was founded with a secret.
func doormanOn(t *testing.T, fsys *powerfs.FS) *doorman {
	t.Helper()
	dir, err := openDataDir(fsys, "/data")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.close() })
	ring, err := dir.loadRing()
	if err != nil {
		t.Fatal(err)
	}
	if ring.IsZero() {
		ring = admission.NewRing(admission.Secret{1})
		if err := dir.saveSecret(ring.Current()); err != nil {
			t.Fatal(err)
		}
	}
	d, err := newDoorman(dir, Config{}.withDefaults(), ring, nil, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	d.mu.run, d.mu.Self = Root{7}, "me"
	return d
}

// proposed is a candidate's commitment that a record is about to bring.
func proposed(t *testing.T, d *doorman) Root {
	t.Helper()
	key, err := d.candidate()
	if err == nil {
		err = d.holdKey(t.Context(), key, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// everyone has been a member, but for those whose names begin with n; those with r were removed.
func everyone(p PeerID) (ever, removed bool) { return p[0] != 'n', p[0] == 'r' }

func TestACandidateIsMadeOnce(t *testing.T) {
	d := doormanOn(t, powerfs.New())
	a, err := d.candidate()
	if err != nil || a.IsZero() || d.holds(a) {
		t.Fatal(err)
	}
	if again, err := d.candidate(); again != a || err != nil {
		t.Errorf("again: %v", err)
	}
	if err := d.holdKey(t.Context(), a, nil, "r1"); err != nil || !d.holds(a) {
		t.Fatalf("proposed: %v", err)
	}
	b, err := d.candidate()
	if b == a || err != nil {
		t.Errorf("when it has been proposed: %v", err)
	}
	if err := d.follow(access{a, everyone}); err != nil {
		t.Fatal(err)
	}
	if c, err := d.candidate(); c != b || err != nil {
		t.Errorf("after a rotation: %v", err)
	}
}

// A peer that is started often leaves no secret behind that nobody has heard of, and loses none that was proposed.
func TestCandidatesOfManyStarts(t *testing.T) {
	fsys := powerfs.New()
	d := doormanOn(t, fsys)
	key := proposed(t, d)
	for seed := range uint64(3) {
		if _, err := d.candidate(); err != nil {
			t.Fatal(err)
		}
		fsys = fsys.Restart(seed)
		d = doormanOn(t, fsys)
	}
	if next := d.ring().Next(); len(next) != 1 || !d.holds(key) {
		t.Errorf("%d secrets are kept", len(next))
	}
}

// A process that ended between two writes has left one secret more than are held: it starts again.
func TestAFileThatHoldsOneTooMany(t *testing.T) {
	fsys := powerfs.New()
	d := doormanOn(t, fsys)
	var all []admission.Secret
	for i := range 1001 {
		all = append(all, admission.Secret{2, byte(i), byte(i >> 8)})
	}
	if err := d.dir.replaceSecrets(nextFile, all, nil); err != nil {
		t.Fatal(err)
	}
	if next := doormanOn(t, fsys.Restart(1)).ring().Next(); !slices.Equal(next, all[1:]) {
		t.Errorf("%d are held", len(next))
	}
}

// A secret that a peer may have got is no good for putting it out.
func TestASecretIsNotProposedToPutOutWhoMayKnowIt(t *testing.T) {
	d := doormanOn(t, powerfs.New())
	key, err := d.candidate()
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		without []PeerID
		want    error
	}{{[]PeerID{"m1"}, nil}, {[]PeerID{"m1"}, nil}, {nil, nil}, {[]PeerID{"m2"}, errKeyShared}, {[]PeerID{"m1", "m2"}, errKeyShared}, {[]PeerID{"m1"}, nil}} {
		if err := d.holdKey(t.Context(), key, nil, c.without...); !errors.Is(err, c.want) {
			t.Errorf("%d: %v, want %v", i, err, c.want)
		}
	}
	if err := d.follow(access{key, everyone}); err != nil {
		t.Fatal(err)
	}
	if err := d.holdKey(t.Context(), key, nil, "m2"); err != nil {
		t.Errorf("in force: %v", err)
	}
}

// Who proves nothing may know an older secret alone: it is asked with that the next time.
func TestAskingWithOlderSecrets(t *testing.T) {
	d, other := doormanOn(t, powerfs.New()), doormanOn(t, powerfs.New())
	d.mu.Self, other.mu.Self = "m1", "m2"
	key := proposed(t, d)
	for _, e := range []error{d.follow(access{key, everyone}), other.follow(access{Root{}, everyone})} {
		if e != nil {
			t.Fatal(e)
		}
	}
	for i, want := range []bool{false, true, false} { // once it is in, the newest is tried first
		ask := d.Ask("m2")
		answer, admitted := other.Answer("m1", ask)
		if err := d.Judge("m2", ask, answer); admitted != want || (err == nil) != want {
			t.Errorf("try %d: admitted %v, %v", i, admitted, err)
		}
	}
}

// Who came by a ticket and was no member yet when the secret was changed is refused with it for ever: it comes in with another ticket, whose secret is on disk
// before it is in use.
func TestATicketBringsTheNewerSecret(t *testing.T) {
	fsys := powerfs.New()
	d, other := doormanOn(t, fsys), doormanOn(t, powerfs.New())
	d.mu.Self, other.mu.Self = "n1", "m2"
	key := proposed(t, other)
	if err := other.follow(access{key, everyone}); err != nil {
		t.Fatal(err)
	}
	expires := time.Now().Add(time.Hour)
	token, err := other.newToken(expires, 1)
	if err != nil {
		t.Fatal(err)
	}
	d.mu.Token, d.mu.Until = token, uint64(expires.Unix())
	for i, c := range []struct{ fails, admitted, in bool }{{}, {fails: true, admitted: true}, {admitted: true, in: true}, {admitted: true, in: true}} {
		fsys.Plan(func(powerfs.Op) (f powerfs.Fault) {
			if c.fails {
				f.Err = syscall.EIO
			}
			return f
		})
		ask := d.Ask("m2")
		answer, admitted := other.Answer("n1", ask)
		if err := d.Judge("m2", ask, answer); admitted != c.admitted || (err == nil) != c.in || d.holds(key) != c.in {
			t.Errorf("try %d: admitted %v, %v, in force %v", i, admitted, err, d.holds(key))
		}
	}
	if line := doormanOn(t, fsys.Restart(1)).ring().Line(); !slices.Equal(line, []admission.Secret{other.ring().Current(), {1}}) {
		t.Errorf("%d secrets are in line on disk", len(line))
	}
}

func TestFollowing(t *testing.T) {
	d := doormanOn(t, powerfs.New())
	before := d.places
	names := d.rendezvous()
	key := proposed(t, d)
	if err := d.follow(access{Root{9}, everyone}); !errors.Is(err, errKeyNotHeld) || d.ring().Current() != (admission.Secret{1}) {
		t.Errorf("a key that is not held: %v", err)
	}
	if err := d.follow(access{key, everyone}); err != nil || d.ring().Current().Commitment(Root{7}) != key {
		t.Fatalf("%v", err)
	}
	if now := d.rendezvous(); len(now) != 2 || now[0] == names[0] || now[1] != names[0] || before != d.places {
		t.Errorf("it meets others at %q", now)
	}
	if err := d.follow(access{Root{}, everyone}); err != nil || d.ring().Current() != (admission.Secret{1}) || !d.holds(key) || !slices.Equal(d.rendezvous(), names) {
		t.Errorf("back at the founding secret: %v", err)
	}
}

// Who may take part is known to a peer that can get the secret in force from nobody, too: it puts out who was removed, and the others can ask it.
func TestRecordsAreFollowedWithoutTheSecret(t *testing.T) {
	d := doormanOn(t, powerfs.New())
	w := &worker{keys: d, standing: everyone, log: slog.New(slog.DiscardHandler)}
	var reports []membership.Report
	w.admit(t.Context(), membership.WorkAccess{Key: Root{9}}, func(r membership.Report) { reports = append(reports, r) })
	if failed, ok := reports[0].(membership.ReportFailed); len(reports) != 1 || !ok || !strings.Contains(failed.Err, errKeyNotHeld.Error()) {
		t.Errorf("it reports %+v", reports)
	}
	if d.mu.Standing == nil {
		t.Error("it does not know who may take part")
	}
}

// A secret that is not on disk is neither in force nor held, whatever the disk does; and it is when it is written again.
func TestASecretThatIsNotWritten(t *testing.T) {
	for _, kind := range []powerfs.Kind{powerfs.Create, powerfs.Write, powerfs.Sync, powerfs.Rename, powerfs.SyncDir} {
		fsys := powerfs.New()
		d := doormanOn(t, fsys)
		failing := func(op powerfs.Op) powerfs.Fault {
			if op.Kind == kind {
				return powerfs.Fault{Err: syscall.EIO}
			}
			return powerfs.Fault{}
		}
		fsys.Plan(failing)
		key, err := d.candidate()
		if err != nil {
			t.Fatal(err)
		}
		if err := d.holdKey(t.Context(), key, nil); !errors.Is(err, syscall.EIO) || len(d.ring().Next()) > 0 {
			t.Errorf("%s fails: %v, and it is held", kind, err)
		}
		fsys.Plan(func(powerfs.Op) powerfs.Fault { return powerfs.Fault{} })
		if err := d.holdKey(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
		fsys.Plan(failing)
		d.mu.tries["m1"] = 1
		if err := d.follow(access{key, everyone}); !errors.Is(err, syscall.EIO) || d.ring().Current() != (admission.Secret{1}) || d.mu.tries["m1"] != 1 {
			t.Errorf("%s fails: %v, and it is in force", kind, err)
		}
		fsys.Plan(func(powerfs.Op) powerfs.Fault { return powerfs.Fault{} })
		if err := d.follow(access{key, everyone}); err != nil {
			t.Errorf("written again: %v", err)
		}
	}
}

// Wherever the power goes, no secret is lost that was held, nor what is in force.
func TestSecretsOutliveThePower(t *testing.T) {
	for n := 0; ; n++ {
		for cut := range 2 {
			fsys := powerfs.New()
			d := doormanOn(t, fsys)
			_ = d.follow(access{Root{}, everyone})
			a := proposed(t, d)
			_ = d.follow(access{a, everyone})
			b := proposed(t, d)
			from := fsys.Ops()
			fsys.CutAt(from+n, powerfs.Before+powerfs.Cut(cut))
			followed := d.follow(access{b, everyone})
			if followed == nil {
				_ = d.follow(access{Root{}, everyone})
			}
			over := !fsys.Down()
			for seed := range uint64(4) {
				again := doormanOn(t, fsys.Reboot(seed))
				if !again.holds(a) || !again.holds(b) || !again.holds(Root{}) || again.ring().Line()[len(again.ring().Line())-1] != (admission.Secret{1}) {
					t.Fatalf("operation %d, cut %d, seed %d: a secret is gone", n, cut, seed)
				}
			}
			if over {
				return
			}
		}
	}
}

// Who gets a secret: members, and of one that is not in force those from whom it is not kept.
func TestWhoIsGivenASecret(t *testing.T) {
	fsys := powerfs.New()
	d := doormanOn(t, fsys)
	key, _ := d.candidate()
	asked := func(d *doorman, what string, to PeerID, key Root, want error) {
		t.Helper()
		s, err := d.give(to, key)
		if !errors.Is(err, want) || (err == nil) != (s.Commitment(Root{7}) == key) && !key.IsZero() {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	asked(d, "before the records are known", "m1", key, errKeyUnsure)
	_ = d.follow(access{Root{}, everyone})
	asked(d, "before it is proposed", "m1", key, errKeyUnknown)
	if err := d.holdKey(context.Background(), key, nil, "m2"); err != nil {
		t.Error(err)
	}
	asked(d, "a member", "m1", key, nil)
	asked(d, "one that is being removed", "m2", key, errKeyUnknown)
	asked(d, "one that was removed", "r1", key, errKeyMembers)
	asked(d, "one that never was a member", "n1", key, errKeyMembers)
	asked(d, "a secret that is not held", "m1", Root{5}, errKeyUnknown)
	again := doormanOn(t, fsys.Restart(1))
	_ = again.follow(access{Root{}, everyone})
	asked(again, "after a restart", "m1", key, errKeyUnknown)
	if err := again.holdKey(context.Background(), key, nil, "m2"); err != nil {
		t.Error(err)
	}
	asked(again, "when it is proposed again", "m1", key, nil)
	asked(again, "though not to all", "m2", key, errKeyUnknown)
	if err := again.follow(access{key, everyone}); err != nil {
		t.Error(err)
	}
	asked(again, "in force", "m2", key, nil)
}

// A copy of another peer's secrets may be newer or older than the own ones.
func TestACopyOfSecrets(t *testing.T) {
	one, two, three := admission.Secret{1}, admission.Secret{2}, admission.Secret{3}
	for what, c := range map[string]struct {
		kept, given, want []admission.Secret
		err               string
	}{
		"an older copy":  {[]admission.Secret{two, one}, []admission.Secret{one}, []admission.Secret{two, one}, ""},
		"a newer copy":   {[]admission.Secret{one}, []admission.Secret{two, one}, []admission.Secret{two, one}, ""},
		"another run's":  {[]admission.Secret{two, one}, []admission.Secret{three}, nil, "different admission secrets"},
		"a first secret": {nil, []admission.Secret{two, one}, []admission.Secret{two, one}, ""},
	} {
		n := &Node{cfg: Config{DataDir: t.TempDir(), Spec: Spec{Name: "sim"}}.withDefaults(), log: slog.New(slog.DiscardHandler)}
		n.dir = dataDir{fs: n.cfg.disk, root: n.cfg.DataDir}
		n.cfg.AdmissionSecret = n.dir.path("given")
		for name, secrets := range map[string][]admission.Secret{secretFile: c.kept, "given": c.given} {
			if err := n.dir.replaceSecrets(name, secrets, nil); err != nil {
				t.Fatal(err)
			}
		}
		err := n.openAdmission(nil)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", what, err)
		}
		if kept, _ := n.dir.loadRing(); err == nil && !slices.Equal(kept.Line(), c.want) {
			t.Errorf("%s: %d secrets are kept", what, len(kept.Line()))
		}
	}
}
