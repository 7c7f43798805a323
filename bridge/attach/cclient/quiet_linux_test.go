package cclient

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
)

// quiet runs a rank that waits for a node, and returns how that ended, and its warnings.
func quiet(t *testing.T, program, path, timeout string) (end, warnings string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs strings.Builder
	cmd := exec.CommandContext(ctx, program, timeout)
	cmd.Env = append(os.Environ(), attach.Variable+"="+path)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("%v: %s", err, errs.String())
	}
	return out.String(), errs.String()
}

// TestANodeThatStandsStill: the client waited for it in silence, and without an end.
func TestANodeThatStandsStill(t *testing.T) {
	program := compile(t, "testdata/quiet.c")
	all, missing := sane(), "rank 0 of 1 has waited 2 s: other ranks have not attached, the node makes the memory, "+
		"or the node (pid 1)"
	still := "the node of this machine (pid 1) has shown no sign of life for 2 s: it is stopped or hangs"
	ended := said{wire.Append(nil, 0, &wire.Error{Code: wire.CodeEnded, Text: "the run has ended"}), 0}
	tests := map[string]struct {
		says    int // of the conversation, before it falls silent
		timeout string
		end     string
		warning string
	}{
		"before WELCOME":         {0, "1", "3 the node of this machine has not answered for 2 s", ""},
		"before SHARE":           {1, "1", "1 the run has ended", missing},
		"after SHARE":            {2, "1", "3 " + still, ""},
		"after SHARE, no limit":  {2, "0", "1 the run has ended", still},
		"in a message, no limit": {3, "0", "1 the run has ended", still},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "s")
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				if conn, err := l.AcceptUnix(); err == nil {
					defer conn.Close()
					standStill(conn, all[:c.says], ended)
				}
			}()
			end, warnings := quiet(t, program, path, c.timeout)
			if !strings.HasPrefix(end, c.end) || !strings.Contains(warnings, c.warning) ||
				strings.Count(warnings, "\n") > 1 || (c.warning == "") != (warnings == "") {
				t.Errorf("%q, and the warnings\n%s", end, warnings)
			}
		})
	}
}

// standStill says the beginning of a conversation, and its end 4 s later. Of three messages it
// leaves the last one torn meanwhile.
func standStill(c *net.UnixConn, begin []said, end said) {
	var rest []byte
	for i, m := range begin {
		if i == 2 {
			m.bytes, rest = m.bytes[:20], m.bytes[20:]
		}
		if say(c, m) != nil {
			return
		}
	}
	time.Sleep(4 * time.Second)
	_, _ = c.Write(append(rest, end.bytes...))
}

// TestALongSlotIsNoStandstill: the node sends nothing for longer than the timeout, and its beat
// goes on.
func TestALongSlotIsNoStandstill(t *testing.T) {
	server := listen(t)
	program := compile(t, "testdata/quiet.c")
	time.AfterFunc(6*time.Second, func() { server.End(wire.CodeEnded, "the run has ended") })
	if end, warnings := quiet(t, program, server.Path(), "1"); end != "1 the run has ended\n" || warnings != "" {
		t.Errorf("%q, and the warnings\n%s", end, warnings)
	}
}
