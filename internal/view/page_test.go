package view

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/doctor"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

func init() { testutil.OneCPU() }

// large is a run of 500 members in some slot, of which each says what it can.
func large(slotNumber uint64) p2pdiloco.Status {
	loss := 1 / float64(slotNumber)
	s := p2pdiloco.Status{
		Peer: "me", Run: "books", RunID: slot.Root{1}, Phase: p2pdiloco.PhaseRunning, Slot: slotNumber,
		LastSlot: 20_000,
		Spec:     map[string]string{"access": spec.AccessOpen},
		Stats: p2pdiloco.StatsStatus{
			Slot: slotNumber, Norm: loss, Loss: &loss, LossSlot: slotNumber, TrainLoss: &loss,
		},
	}
	for i := range 500 {
		s.Members = append(s.Members, p2pdiloco.MemberStatus{
			Peer: slot.PeerID(fmt.Sprintf("%032d", i)), State: "training", Seat: 1, Steps: 17, Assigned: 500,
			Heard: time.Second, Slot: slotNumber, Uplink: 12000,
			Path:         &p2p.Path{Way: p2p.WayDirect, Transport: "tcp", RTT: 31 * time.Millisecond},
			Contribution: &p2pdiloco.ContributionStatus{Slot: slotNumber, Steps: 500, StepTime: time.Second},
			Figures: &p2pdiloco.FiguresStatus{
				Slot: slotNumber, Norm: 1.23456789, Cosine: &loss, Trimmed: .0123456,
			},
		})
	}
	return s
}

// serve serves the page of a peer that says what status returns.
func serve(t *testing.T, status func() p2pdiloco.Status, a PageActions) *PageServer {
	t.Helper()
	w := NewWatcher(Source{
		Status:   func(context.Context) (p2pdiloco.Status, error) { return status(), nil },
		Waits:    func(p2pdiloco.Status) string { return "" },
		Sentence: func(p2pdiloco.Event) (string, bool) { return "", false },
	})
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan struct{})
	changed := w.Look(func(*Newest) {})
	go func() { w.Run(ctx); close(watched) }()
	<-changed
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := ServePage(l, w, a)
	t.Cleanup(func() {
		cancel()
		<-watched
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask sends a request, with headers as name and value in turn.
func ask(t *testing.T, s *PageServer, method, path string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// first reads the first thing that a stream tells.
func first(t *testing.T, res *http.Response) (u update, size int) {
	t.Helper()
	line, err := bufio.NewReader(res.Body).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal([]byte(strings.TrimPrefix(string(line), "data: ")), &u)
	}
	if err != nil {
		t.Fatalf("%v: %.200s", err, line)
	}
	return u, len(line)
}

// UnmarshalJSON reads an update. Its points are rows, of which only the number is kept.
func (u *update) UnmarshalJSON(b []byte) error {
	type plain update
	all := struct {
		*plain
		Points []json.RawMessage `json:"points"`
	}{plain: (*plain)(u)}
	err := json.Unmarshal(b, &all)
	u.Points = make([]Point, len(all.Points))
	return err
}

// Who may look and steer: in an open run everybody looks, in a private one and before the run is
// known it takes the key, which steering takes always. A page from elsewhere gets nothing.
func TestWhoMayLookAndSteer(t *testing.T) {
	open, private := large(1), large(1)
	private.Spec = map[string]string{"access": spec.AccessPrivate}
	for _, c := range []struct {
		status       p2pdiloco.Status
		name, value  string
		looks, steer int
	}{
		{open, "Accept", "*/*", 200, 401},
		{open, "Authorization", "Bearer x", 200, 401},
		{open, "Authorization", "KEY", 200, 202},
		{private, "Accept", "*/*", 401, 401},
		{private, "Authorization", "Bearer x", 401, 401},
		{private, "Authorization", "KEY", 200, 202},
		{p2pdiloco.Status{}, "Accept", "*/*", 401, 401},
		{open, "Host", "evil.example", 403, 403},
		{open, "Host", "localhost:7", 200, 401},
		{open, "Origin", "http://evil.example", 403, 403},
		{open, "Sec-Fetch-Site", "cross-site", 403, 403},
		{open, "Sec-Fetch-Site", "same-site", 403, 403},
		{open, "Sec-Fetch-Site", "same-origin", 200, 401},
	} {
		moved := ""
		s := serve(t, func() p2pdiloco.Status { return c.status }, PageActions{
			Move: func(_ context.Context, action, peer string) error { moved = action + " " + peer; return nil },
		})
		value := c.value
		if value == "KEY" {
			value = "Bearer " + s.key
		}
		looks := ask(t, s, http.MethodGet, "/stream", c.name, value)
		steer := ask(t, s, http.MethodPost, "/move?action=remove&peer=q", c.name, value)
		if looks.StatusCode != c.looks || steer.StatusCode != c.steer || (moved == "remove q") != (c.steer == 202) {
			t.Errorf("private %v, %s: %s: looking is answered with %d, steering with %d (%s)", c.status.Spec, c.name,
				value, looks.StatusCode, steer.StatusCode, moved)
		}
		if c.looks == 200 {
			if u, _ := first(t, looks); *u.HasKey != (c.steer == 202) {
				t.Error("it says that the key is right:", *u.HasKey)
			}
		}
	}
}

// The page is in the program and loads what is served with it, nothing from elsewhere, and no
// script within a page. All answers say so.
func TestPage(t *testing.T) {
	s := serve(t, func() p2pdiloco.Status { return large(1) }, PageActions{})
	for path, want := range map[string]string{
		"/": "<!doctype html>", "/view.js": "askModel", "/members.js": "nameOf", "/chart.js": "uPlot",
		"/dom.js": "textContent", "/view.css": "prefers-color-scheme: dark", "/icon.svg": "<svg",
		"/uplot.js": "uPlot", "/uplot.css": ".uplot", "/uplot.LICENSE": "MIT",
	} {
		res := ask(t, s, http.MethodGet, path)
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 || !strings.Contains(string(text), want) {
			t.Errorf("%s: %d, %v, %.80s", path, res.StatusCode, err, text)
		}
		for _, never := range []string{"innerHTML", "outerHTML", "AdjacentHTML", "https:", " onclick", "eval("} {
			if strings.Contains(string(text), never) && !strings.HasPrefix(path, "/uplot") {
				t.Errorf("%s has %s", path, never)
			}
		}
		csp, sniff := res.Header.Get("Content-Security-Policy"), res.Header.Get("X-Content-Type-Options")
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "frame-ancestors 'none'"} {
			if !strings.Contains(csp, part) || strings.Contains(csp, "unsafe") || sniff == "" {
				t.Errorf("%s: the policy is %q, without %s", path, csp, part)
			}
		}
	}
	if res := ask(t, s, http.MethodGet, "/../server.go"); res.StatusCode != 404 {
		t.Errorf("a file of the program's source: %d", res.StatusCode)
	}
}

// To open the page takes a bounded number of bytes, and what has not changed is not told again.
func TestLargeRun(t *testing.T) {
	s := serve(t, func() p2pdiloco.Status { return large(1) }, PageActions{})
	all, err := bufio.NewReader(ask(t, s, http.MethodGet, "/stream").Body).ReadString('\n')
	if err != nil || len(all) > 300_000 || strings.Count(all, `"short"`) != 500 {
		t.Fatalf("%d bytes of %d members, %v", len(all), strings.Count(all, `"short"`), err)
	}
	s.watcher.Look(func(n *Newest) {
		known := told{parts: map[string]json.RawMessage{}}
		known.update(n)
		known.begun = true
		n.Members[3].Steps++
		gone := n.Members[499].ID
		n.Members = n.Members[:499]
		again, err := json.Marshal(known.update(n))
		if err != nil || len(again) > 1000 || !strings.Contains(string(again), `"gone":["`+gone) ||
			!strings.Contains(string(again), n.Members[3].ID) {
			t.Errorf("again %d bytes, %v: %.300s", len(again), err, again)
		}
	})
}

// What members say of themselves stays text: a browser gets it as a string of JSON, in which there
// is no markup, and never long.
func TestMarkup(t *testing.T) {
	const bad = "<script>alert(1)</script>\u202e\x00 "
	s := serve(t, func() p2pdiloco.Status {
		s := large(1)
		s.Run = bad
		s.Members[2].Says = &p2pdiloco.Claims{Name: bad, Version: "1"}
		s.Members[0].Fault = bad + strings.Repeat("x", 1<<20)
		s.Members[1].StandsOut = []p2pdiloco.Finding{{Words: bad}}
		s.Reason = bad
		return s
	}, PageActions{})
	res := ask(t, s, http.MethodGet, "/stream")
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	if err != nil || strings.ContainsAny(line, "<>\u202e\x00") || len(line) > 300_000 {
		t.Errorf("%d bytes, %v", len(line), err)
	}
	if n := strings.Count(line, `\u003cscript\u003ealert(1)\u003c/script\u003e`); n != 5 {
		t.Errorf("it stands there %d times: %.3000s", n, line)
	}
	if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Error(kind)
	}
}

// A question takes the key; its answer, or why there is none, is a string of JSON, in which there
// is no markup.
func TestAskTheModel(t *testing.T) {
	asked := 0
	s := serve(t, func() p2pdiloco.Status { return large(1) }, PageActions{
		Ask: func(_ context.Context, prompt string) (api.Answer, error) {
			if asked++; prompt == "<b>&" {
				return api.Answer{Text: "<b>& so on", Slot: 3}, nil
			}
			return api.Answer{}, errors.New("the run has ended")
		},
	})
	for _, c := range []struct {
		query, key string
		status     int
		text       string
	}{
		{"prompt=a", "Bearer x", 401, "this needs the key"},
		{"prompt=%3Cb%3E%26", "Bearer " + s.key, 200, `{"text":"\u003cb\u003e\u0026 so on","slot":3}`},
		{"prompt=a", "Bearer " + s.key, 200, `{"text":"","slot":0,"error":"the run has ended"}`},
	} {
		before := asked
		res := ask(t, s, http.MethodPost, "/ask?"+c.query, "Authorization", c.key)
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != c.status || !strings.HasPrefix(string(text), c.text) {
			t.Errorf("%s: %d %s, %v", c.query, res.StatusCode, text, err)
		}
		if (asked > before) != (c.status == 200) {
			t.Errorf("%s with the answer %d was asked", c.query, c.status)
		}
	}
}

// While a question waits, a browser hears something now and then, and the end of one ends its wait.
func TestAnswerTakesLong(t *testing.T) {
	asked, ended := make(chan struct{}, 1), make(chan error, 1)
	s := &PageServer{actions: PageActions{Ask: func(ctx context.Context, _ string) (api.Answer, error) {
		asked <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return api.Answer{}, ctx.Err()
	}}}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/ask?prompt=a", nil)
		w := httptest.NewRecorder()
		done := make(chan struct{})
		go func() { s.ask(w, r); close(done) }()
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		if got := w.Body.String(); len(got) != int(time.Hour/keepAlive) || strings.TrimSpace(got) != "" || !w.Flushed {
			t.Errorf("in an hour it sends %q", got)
		}
		cancel()
		<-done
	})
	<-asked
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// One doctor is at work at a time; what is refused is said in the peer's words.
func TestActions(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	s := serve(t, func() p2pdiloco.Status { return large(1) }, PageActions{
		Doctor: func(context.Context) ([]doctor.Finding, error) {
			close(began)
			<-end
			return []doctor.Finding{{Check: "clock", Level: doctor.OK, What: "right"}}, nil
		},
		Move: func(context.Context, string, string) error { return errors.New("the run is open") },
	})
	key := "Bearer " + s.key
	answered := make(chan string)
	go func() {
		text, _ := io.ReadAll(ask(t, s, http.MethodPost, "/doctor", "Authorization", key).Body)
		answered <- string(text)
	}()
	<-began
	for path, want := range map[string]string{
		"/doctor": "409 the doctor is at work already", "/move?action=remove&peer=q": "409 the run is open",
		"/move?action=rotate": "400 the action is remove or readmit",
	} {
		res := ask(t, s, http.MethodPost, path, "Authorization", key)
		text, _ := io.ReadAll(res.Body)
		if got := fmt.Sprintf("%d %s", res.StatusCode, text); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
	close(end)
	if got := <-answered; !strings.Contains(got, `"what":"right"`) {
		t.Error(got)
	}
}
