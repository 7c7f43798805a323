package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// Answer is what a model made of a prompt.
type Answer struct {
	Text string `json:"text"`
	Slot uint64 `json:"slot"` // of the anchor that the model is
}

// questions carries out the command to ask the model, which takes until the next round begins.
func (c Commands) questions() func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		deadlines := http.NewResponseController(w)
		_ = deadlines.SetReadDeadline(time.Time{}) // the request's context ends with its connection
		_ = deadlines.SetWriteDeadline(time.Time{})
		answer, err := c.Ask(r.Context(), r.URL.Query().Get("prompt"))
		if err == nil {
			_ = deadlines.SetWriteDeadline(time.Now().Add(writeTimeout))
			writeJSON(w, answer)
		}
		return err
	}
}

// Ask has the model of the peer at addr go on with a prompt. It waits for the next round to begin,
// or until ctx ends.
func Ask(ctx context.Context, addr Address, token, prompt string) (a Answer, err error) {
	b, err := ask(ctx, addr, http.MethodPost, "/ask?"+url.Values{"prompt": {prompt}}.Encode(), token)
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	if err != nil {
		return a, at(addr, err)
	}
	return a, nil
}
