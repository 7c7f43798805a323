package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/spec"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

func settled() spec.Spec {
	s := spec.Spec{Name: "sim", Rounds: 10, StartPeers: 1}
	s.Layout = trainer.Layout{{Name: "w", Shape: []uint64{4}}}
	return s.Settled()
}

// A directory gives back what was saved in it, also to a reader without the lock.
func TestADirectoryKeepsSpecAndPreset(t *testing.T) {
	d, err := Open(disk.OS, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if known, err := d.LoadSpec(spec.Spec{}); known != nil || err != nil {
		t.Errorf("a new directory knows %v, %v", known, err)
	}
	if name, err := d.LoadPreset("lan", "wan"); name != "" || err != nil {
		t.Errorf("a new directory remembers %q, %v", name, err)
	}
	saved := settled()
	for range 2 { // also where it is there already
		if err := d.SaveSpec(saved); err != nil {
			t.Fatal(err)
		}
		if err := d.SavePreset("lan"); err != nil {
			t.Fatal(err)
		}
	}
	reader := At(disk.OS, d.Root)
	known, err := reader.LoadSpec(spec.Spec{Name: "sim"})
	if err != nil || known.RunID() != saved.RunID() {
		t.Errorf("read: %v, %v", known, err)
	}
	if name, err := reader.LoadPreset("lan", "wan"); name != "lan" || err != nil {
		t.Errorf("it remembers %q, %v", name, err)
	}
	if _, err := reader.LoadSpec(spec.Spec{Name: "other"}); err == nil {
		t.Error("the directory of one run serves another")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// A directory that has lost its ledger says so at later starts, too, when a new ledger lies there.
// One that never had a ledger has lost none.
func TestALostLedgerIsNoted(t *testing.T) {
	d := At(disk.OS, t.TempDir())
	lost := func(want bool, when string) {
		t.Helper()
		if got, err := d.NoteLostLedger(); got != want || err != nil {
			t.Errorf("%s: lost %v, %v", when, got, err)
		}
	}
	change := func(name string, there bool) {
		t.Helper()
		err := os.Remove(d.Path(name))
		if there {
			err = os.WriteFile(d.Path(name), nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	lost(false, "a new directory")
	if err := d.SaveSpec(settled()); err != nil {
		t.Fatal(err)
	}
	change(LedgerFile, true)
	lost(false, "with its ledger")
	change(LedgerFile, false)
	lost(true, "without it")
	lost(true, "once more")
	change(LedgerFile, true)
	lost(true, "with a new ledger")
}

// Damage is reported, with what to do about it.
func TestDamagedFiles(t *testing.T) {
	d := At(disk.OS, t.TempDir())
	for _, name := range []string{specFile, presetFile} {
		if err := os.WriteFile(d.Path(name), []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.LoadSpec(spec.Spec{}); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("a spec of nonsense: %v", err)
	}
	if _, err := d.LoadPreset("lan", "wan"); err == nil || !strings.Contains(err.Error(), "it names no preset") {
		t.Errorf("a preset of nonsense: %v", err)
	}
}

// A process was killed while it wrote a secret: the next one removes what it left.
func TestOpenRemovesWhatAKilledProcessLeft(t *testing.T) {
	root := t.TempDir()
	left := filepath.Join(root, ".admission.secret.123")
	if err := os.WriteFile(left, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Open(disk.OS, root)
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("a part of a secret is left: %v", err)
	}
}

// One process uses a directory at a time, and a temporary one is gone in the end.
func TestLockAndTemporaryDirectory(t *testing.T) {
	d, err := Open(disk.OS, "")
	if err != nil {
		t.Fatal(err)
	}
	second, err := Open(disk.OS, d.Root)
	if err == nil {
		t.Error("two use one directory")
	}
	if err := second.Close(); err != nil { // it must not take the lock away, nor the directory
		t.Error(err)
	}
	if !d.Temporary || !d.Has(lockFile) {
		t.Error("the directory is gone too early")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(d.Root); !os.IsNotExist(err) {
		t.Errorf("a temporary directory stays: %v", err)
	}
}
