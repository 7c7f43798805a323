package api

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// The socket of a peer that was killed answers nothing: what a user can do is to start it again.
func TestThePeerIsGone(t *testing.T) {
	addr, err := ParseAddress("unix:" + filepath.Join(t.TempDir(), "api.sock"))
	if err != nil {
		t.Fatal(err)
	}
	want := "no peer listens at " + addr.String() + ", where its API was: it has ended or crashed. Start it again"
	if _, err := (Client{addr, ""}).Get(t.Context(), nil); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("status: %v", err)
	}
	if err := (Client{addr, ""}).Move(t.Context(), "rotate", ""); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("a motion: %v", err)
	}
}

// What a peer refuses it says in its own words, without those of HTTP.
func TestRefusedMotion(t *testing.T) {
	var asked []Motion
	commands := Commands{Change: func(c Motion) error {
		asked = append(asked, c)
		if c.Peer == "" {
			return errors.New("p2pdiloco: the motion cannot be made: the run is open")
		}
		return nil
	}}
	s := serve(t, "127.0.0.1:0", testKeys, Content{Commands: commands})
	if err := (Client{s.Addr(), "another"}).Move(t.Context(), "remove", "p"); err == nil || len(asked) > 0 {
		t.Errorf("without the token: %v, asked %v", err, asked)
	}
	if err := (Client{s.Addr(), testKeys.Token}).Move(t.Context(), "remove", "p"); err != nil || len(asked) != 1 ||
		asked[0] != (Motion{"remove", "p"}) {
		t.Errorf("%v, asked %v", err, asked)
	}
	const want = "the peer refuses: the motion cannot be made: the run is open"
	if err := (Client{s.Addr(), testKeys.Token}).Move(t.Context(), "rotate", ""); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
