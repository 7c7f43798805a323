package api

import (
	"encoding/json"
	"errors"
	"testing"
)

// The newest events take what the status takes, and a request says which it has seen.
func TestEvents(t *testing.T) {
	var asked []uint64
	s := serve(t, "127.0.0.1:0", testKeys, Content{Events: func(after uint64) Recent {
		asked = append(asked, after)
		return Recent{Next: 9, Events: []json.RawMessage{[]byte(`{"event":"x"}`)}}
	}})
	if _, err := (Client{s.Addr(), ""}).Events(t.Context(), 7); !errors.Is(err, ErrToken) || len(asked) > 0 {
		t.Errorf("without the token: %v, asked %v", err, asked)
	}
	r, err := (Client{s.Addr(), testKeys.Token}).Events(t.Context(), 7)
	if err != nil || r.Next != 9 || len(r.Events) != 1 || string(r.Events[0]) != `{"event":"x"}` || asked[0] != 7 {
		t.Errorf("%+v, %v, asked %v", r, err, asked)
	}
	if code := answerTo(t, s.Addr(), "/events", testKeys.Token); code != 200 || asked[1] != 0 {
		t.Errorf("without a number: %d, asked %v", code, asked)
	}
}
