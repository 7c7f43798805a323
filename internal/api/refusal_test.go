package api

import (
	"errors"
	"testing"
)

// What a peer refuses it says in its own words, without those of HTTP.
func TestRefusedMotion(t *testing.T) {
	var asked []Motion
	commands := Commands{Change: func(c Motion) error {
		asked = append(asked, c)
		if c.Peer == "" {
			return errors.New("p2pdiloco: the order cannot be given: the run is open")
		}
		return nil
	}}
	addr, err := ParseAddress("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Serve(addr, testKeys, Content{Status: sampleStatus, Commands: commands})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := Move(t.Context(), s.Addr(), "another", "remove", "p"); err == nil || len(asked) > 0 {
		t.Errorf("without the token: %v, asked %v", err, asked)
	}
	if err := Move(t.Context(), s.Addr(), testKeys.Token, "remove", "p"); err != nil || len(asked) != 1 ||
		asked[0] != (Motion{"remove", "p"}) {
		t.Errorf("%v, asked %v", err, asked)
	}
	const want = "the peer refuses: the order cannot be given: the run is open"
	if err := Move(t.Context(), s.Addr(), testKeys.Token, "rotate", ""); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
