package api

import (
	"context"
	"strings"
	"testing"
	"time"
)

// A probe needs the token as other commands do, one is under way at a time, and it may take longer
// than other answers.
func TestProbe(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	commands := Commands{Probe: func(ctx context.Context) (any, error) {
		if until, ok := ctx.Deadline(); !ok || time.Until(until) < writeTimeout {
			t.Errorf("there is time until %v", until)
		}
		close(began)
		<-end
		return []string{"far", "near"}, nil
	}}
	s := serve(t, "127.0.0.1:0", testKeys, Content{Commands: commands})
	if err := (Client{s.Addr(), ""}).Probe(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without the token: %v", err)
	}
	answered := make(chan error)
	var got []string
	go func() { answered <- (Client{s.Addr(), testKeys.Token}).Probe(t.Context(), &got) }()
	<-began
	if err := (Client{s.Addr(), testKeys.Token}).Probe(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), "under way") {
		t.Errorf("the second at once: %v", err)
	}
	close(end)
	if err := <-answered; err != nil || len(got) != 2 || got[1] != "near" {
		t.Errorf("%v, %v", got, err)
	}
}
