//go:build linux || darwin

package attach

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestOtherUsersAreRefused: the system says who is at the other end, and only the node's own user
// and root may be. Whoever can open the socket could change what the peer contributes otherwise.
func TestOtherUsersAreRefused(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	must(t, err)
	defer l.Close()
	there, err := net.Dial("unix", l.Addr().String()) //nolint:noctx // it answers at once
	must(t, err)
	defer there.Close()
	c, err := l.AcceptUnix()
	must(t, err)
	defer c.Close()
	if err := allowed(c); err != nil {
		t.Errorf("a process of the same user: %v", err)
	}
	other := os.Getuid() + 1
	for uid, want := range map[int]bool{0: true, os.Getuid(): true, other: false} {
		err := ask(c, func(int) (int, int, error) { return 71, uid, nil })
		if (err == nil) != want {
			t.Errorf("user %d: %v", uid, err)
		}
	}
	unknown := errors.New("the system does not know")
	if err := ask(c, func(int) (int, int, error) { return 0, 0, unknown }); !errors.Is(err, unknown) {
		t.Errorf("one that nobody knows: %v", err)
	}
}
