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

// TestANodeThatStandsStill: the client waited for it in silence, and without an end. A node that
// sends nothing, and whose beat goes on, does not stand still.
func TestANodeThatStandsStill(t *testing.T) {
	program := compile(t, "testdata/quiet.c")
	all := sane()
	const still = "the node of this machine (pid 1) has shown no sign of life for 2 s: it is stopped or hangs"
	for name, c := range map[string]struct {
		says    int // of the conversation, before it falls silent; -1: it is a node
		timeout string
		end     string
		warning string
	}{
		"before WELCOME": {0, "1", "3 the node of this machine has not answered for 2 s", ""},
		"before SHARE": {
			1, "1", "1 the run has ended", "rank 0 of 1 has waited 2 s: other ranks have not attached, the node " +
				"makes the memory, or the node (pid 1)",
		},
		"after SHARE":            {2, "1", "3 " + still, ""},
		"after SHARE, no limit":  {2, "0", "1 the run has ended", still},
		"in a message, no limit": {3, "0", "1 the run has ended", still},
		"a long slot":            {-1, "1", "1 the run has ended", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "s")
			if c.says < 0 {
				server := listen(t)
				path = server.Path()
				time.AfterFunc(4*time.Second, func() { server.End(wire.CodeEnded, "the run has ended") })
			} else {
				l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
				do(t, err)
				defer l.Close()
				go func() {
					if conn, err := l.AcceptUnix(); err == nil {
						defer conn.Close()
						standStill(conn, all[:c.says])
					}
				}()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var out, errs strings.Builder
			cmd := exec.CommandContext(ctx, program, c.timeout)
			cmd.Env = append(os.Environ(), attach.Variable+"="+path)
			cmd.Stdout, cmd.Stderr = &out, &errs
			do(t, cmd.Run())
			if warnings := errs.String(); !strings.HasPrefix(out.String(), c.end) ||
				!strings.Contains(warnings, c.warning) || strings.Count(warnings, "\n") > 1 ||
				(c.warning == "") != (warnings == "") {
				t.Errorf("%q, and the warnings\n%s", &out, warnings)
			}
		})
	}
}

// standStill says the beginning of a conversation, and its end 4 s later. Of three messages it
// leaves the last one torn meanwhile.
func standStill(c *net.UnixConn, begin []said) {
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
	_, _ = c.Write(wire.Append(rest, 0, &wire.Error{Code: wire.CodeEnded, Text: "the run has ended"}))
}
