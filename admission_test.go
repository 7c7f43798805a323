package p2pdiloco

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// secretIn writes a secret into a file.
func secretIn(t *testing.T, dir string, secret proof.Secret) string {
	t.Helper()
	path := filepath.Join(dir, admission.SecretFile)
	if err := os.WriteFile(path, []byte(secret.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ticketOf is a ticket of a private run with this secret.
func ticketOf(t *testing.T, spec Spec, secret proof.Secret) string {
	t.Helper()
	k := ticket.Ticket{
		Run: spec.Name, RunID: spec.RunID(), Pin: Root{2},
		Expires: time.Now().Add(time.Hour).UTC().Truncate(time.Second),
		Addrs:   []string{"/ip4/127.0.0.1/tcp/9/p2p/12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF"},
		Token:   &ticket.Token{Uses: 1},
	}
	k.Token.Tag = secret.Tag(k.Run, k.Token.ID, uint64(k.Expires.Unix()), k.Token.Uses)
	text, err := k.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// What cannot be is refused before a secret is kept, and of two it is said which one counts.
func TestSecretsThatDoNotFit(t *testing.T) {
	here, there := proof.Secret{1}, proof.Secret{2}
	open := Spec{Name: "sim", Rounds: 10, StartPeers: 1}
	open.Layout = Layout{{Name: "x", Shape: []uint64{5000}}}
	private := open
	private.Access = AccessPrivate
	open, private = open.Settled(), private.Settled()
	path := secretIn(t, t.TempDir(), here)
	name := Spec{Name: "sim"}
	for what, c := range map[string]struct {
		config Config
		spec   *Spec        // in the data directory
		kept   proof.Secret // there, too
		err    string
		log    string
		keeps  bool // afterwards
	}{
		"said to be open": {
			config: Config{AdmissionSecret: path, Spec: Spec{Name: "sim", Access: AccessOpen}},
			err:    "leave this out",
		},
		"was open": {
			config: Config{AdmissionSecret: path, Spec: name}, spec: &open,
			err: "is open: leave out the admission secret",
		},
		"another run's ticket": {
			config: Config{AdmissionSecret: path, Ticket: ticketOf(t, private, here)},
			spec:   &open, err: "for another run",
		},
		"another secret given": {
			config: Config{AdmissionSecret: path, Ticket: ticketOf(t, private, there)},
			err:    "not of the admission secret in " + path,
		},
		"another secret is kept": {
			config: Config{Ticket: ticketOf(t, private, there)}, kept: here,
			err: "not of the admission secret in ", keeps: true,
		},
		"a member's old ticket": {
			config: Config{Ticket: ticketOf(t, private, there)}, spec: &private, kept: here,
			log: "the ticket is used where the secret is refused", keeps: true,
		},
		"a member's own ticket": {
			config: Config{Ticket: ticketOf(t, private, here)}, spec: &private, kept: here,
			keeps: true,
		},
		"the same secret": {
			config: Config{AdmissionSecret: path, Ticket: ticketOf(t, private, here)},
			keeps:  true,
		},
		"lost": {
			config: Config{Spec: Spec{Name: "sim", Access: AccessPrivate}}, spec: &private,
			err: "is gone: put it back",
		},
		"a founder": {config: Config{Spec: Spec{Name: "sim", Access: AccessPrivate}}, keeps: true},
	} {
		var log bytes.Buffer
		c.config.DataDir, c.config.Logger = t.TempDir(), slog.New(slog.NewTextHandler(&log, nil))
		if c.spec != nil {
			if err := datadir.At(disk.OS, c.config.DataDir).SaveSpec(*c.spec); err != nil {
				t.Fatal(err)
			}
		}
		if !c.kept.IsZero() {
			secretIn(t, c.config.DataDir, c.kept)
		}
		o, err := openData(t.Context(), c.config.withDefaults(), edge.HooksFrom(t.Context()))
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", what, err, c.err)
		}
		if got := o.dir.Has(admission.SecretFile); got != c.keeps {
			t.Errorf("%s: the secret is kept: %v", what, got)
		}
		if (log.Len() > 0) != (c.log != "") || !strings.Contains(log.String(), c.log) {
			t.Errorf("%s: it logs %q, want %q", what, &log, c.log)
		}
		if err == nil {
			if err := o.dir.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
