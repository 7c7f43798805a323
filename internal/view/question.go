package view

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/api"
)

// answer is what a browser gets: an answer, or why there is none.
type answer struct {
	api.Answer
	Error string `json:"error,omitempty"`
}

// ask has the model answer. A browser would give up in a round that takes long, so it is sent a
// space now and then, which JSON may begin with.
func (s *PageServer) ask(w http.ResponseWriter, r *http.Request) {
	deadlines := http.NewResponseController(w)
	_ = deadlines.SetReadDeadline(time.Time{}) // the request's context ends with its connection
	answered := make(chan answer, 1)
	go func() {
		a, err := s.actions.Ask(r.Context(), r.URL.Query().Get("prompt"))
		if err != nil {
			answered <- answer{Error: err.Error()}
			return
		}
		answered <- answer{Answer: a}
	}()
	w.Header().Set("Content-Type", "application/json")
	beat := time.NewTicker(keepAlive)
	defer beat.Stop()
	for {
		select {
		case a := <-answered:
			_ = deadlines.SetWriteDeadline(time.Now().Add(writeTimeout))
			_ = json.NewEncoder(w).Encode(a)
			return
		case <-beat.C:
			_ = deadlines.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, err := w.Write([]byte(" ")); err != nil || deadlines.Flush() != nil {
				return
			}
		}
	}
}
