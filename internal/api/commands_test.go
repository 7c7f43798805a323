package api

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A command needs the token on a loopback address, the right host name, and POST; on a Unix socket
// its permissions do.
func TestCommands(t *testing.T) {
	var answer error
	called := 0
	commands := Commands{Recover: func() error { called++; return answer }}
	keys := testKeys
	start := func(addr string) *Server { return serve(t, addr, keys, Content{Commands: commands}) }
	tcp, socket := start("127.0.0.1:0"), start("unix:"+filepath.Join(t.TempDir(), "s"))
	for _, c := range []struct {
		addr  Address
		token string
		want  int
		part  string
	}{
		{tcp.Addr(), "", 0, "401"},
		{tcp.Addr(), testKeys.Token[1:], 0, "401"},
		{tcp.Addr(), testKeys.Token, 1, ""},
		{socket.Addr(), "", 1, ""},
	} {
		called = 0
		err := (Client{c.addr, c.token}).Recover(t.Context())
		if called != c.want || (err == nil) != (c.part == "") || err != nil && !strings.Contains(err.Error(), c.part) {
			t.Errorf("%s, token %q: called %d times, %v", c.addr, c.token, called, err)
		}
	}
	answer = errors.New("nothing to recover from")
	if err := (Client{tcp.Addr(), testKeys.Token}).Recover(t.Context()); err == nil ||
		!strings.Contains(err.Error(), answer.Error()) {
		t.Errorf("got %v", err)
	}
	called = 0
	for _, c := range []struct {
		method, host string
		want         int
	}{{"GET", "", 405}, {"POST", "rebound.example.org", 403}} {
		got := answerAs(t, tcp.Addr(), c.method, "/recover", c.host, testKeys.Token)
		if got != c.want || called > 0 {
			t.Errorf("%s of host %q: %d, called %d times", c.method, c.host, got, called)
		}
	}
	// Without a token no command is taken on a loopback address.
	keys.Token = ""
	if err := (Client{start("127.0.0.1:0").Addr(), ""}).Recover(t.Context()); err == nil || called > 0 {
		t.Errorf("called %d times, %v", called, err)
	}
}

// An invitation carries what was asked for there, and the ticket back; it needs the token, for what
// it gives may admit somebody.
func TestInvite(t *testing.T) {
	var asked []Invitation
	commands := Commands{Invite: func(i Invitation) (string, error) {
		asked = append(asked, i)
		if i.Uses > 5 {
			return "", errors.New("too many")
		}
		return "ticket", nil
	}}
	s := serve(t, "127.0.0.1:0", testKeys, Content{Commands: commands})
	want := Invitation{TTL: 90 * time.Minute, Uses: 3}
	if _, err := (Client{s.Addr(), "another"}).Invite(t.Context(), want); err == nil || len(asked) > 0 {
		t.Errorf("without the token: %v, asked %v", err, asked)
	}
	if text, err := (Client{s.Addr(), testKeys.Token}).Invite(t.Context(), want); err != nil || text != "ticket" ||
		len(asked) != 1 || asked[0] != want {
		t.Errorf("got %q, %v, asked %v", text, err, asked)
	}
	if _, err := (Client{s.Addr(), testKeys.Token}).Invite(t.Context(), Invitation{Uses: 6}); err == nil ||
		!strings.Contains(err.Error(), "too many") {
		t.Errorf("refused: %v", err)
	}
	if err := (Client{s.Addr(), testKeys.Token}).Recover(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "404") {
		t.Errorf("a command that the peer does not have: %v", err)
	}
}

// A question may wait for longer than other answers, and ends with the client that asks. It takes
// the token, and says in the peer's words why there is no answer.
func TestAsk(t *testing.T) {
	asked, ended := make(chan string, 1), make(chan error, 1)
	commands := Commands{Ask: func(ctx context.Context, prompt string) (Answer, error) {
		asked <- prompt
		switch prompt {
		case "wait":
			<-ctx.Done()
			ended <- ctx.Err()
			return Answer{}, ctx.Err()
		case "refuse":
			return Answer{}, errors.New("p2pdiloco: nothing answers here")
		}
		return Answer{Text: prompt + " and on", Slot: 7}, nil
	}}
	s := serve(t, "127.0.0.1:0", testKeys, Content{Commands: commands})
	if a, err := (Client{s.Addr(), "another"}).Ask(t.Context(), "x"); err == nil || len(asked) > 0 {
		t.Errorf("without the token: %+v, %v", a, err)
	}
	if got := answerAs(t, s.Addr(), "GET", "/ask?prompt=x", "", testKeys.Token); got != 405 || len(asked) > 0 {
		t.Error("GET:", got)
	}
	const odd = "a\nb & c=é?#"
	if a, err := (Client{s.Addr(), testKeys.Token}).Ask(t.Context(), odd); err != nil || <-asked != odd ||
		a != (Answer{odd + " and on", 7}) {
		t.Errorf("%+v, %v", a, err)
	}
	const want = "the peer refuses: nothing answers here"
	if _, err := (Client{s.Addr(), testKeys.Token}).Ask(t.Context(), "refuse"); err == nil || err.Error() != want {
		t.Error(err)
	}
	<-asked
	long := strings.Repeat("é", 16<<10)
	if a, err := (Client{s.Addr(), testKeys.Token}).Ask(t.Context(), long); err == nil || len(asked) > 0 {
		t.Errorf("a prompt of %d bytes: %+v, %v", len(long), a, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := (Client{s.Addr(), testKeys.Token}).Ask(ctx, "wait")
		gone <- err
	}()
	<-asked
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error("the peer's own wait:", err)
	}
}
