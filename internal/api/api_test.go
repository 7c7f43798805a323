package api

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample stands for a node's status: the API serves whatever it is given.
type sample struct {
	Peer  string            `json:"peer"`
	Addrs []string          `json:"addrs"`
	Spec  map[string]string `json:"spec,omitempty"`
	Slot  uint64            `json:"slot"`
	Up    time.Duration     `json:"uptime_ns"`
}

var testKeys = Keys{Token: NewToken(), Metrics: NewToken()}

func sampleStatus() (any, bool) {
	return sample{
		Peer: "peer", Addrs: []string{"/ip4/127.0.0.1/tcp/1"},
		Spec: map[string]string{"aggregator": "median"}, Slot: 3, Up: time.Minute,
	}, true
}

func serve(t *testing.T, addr string, keys Keys, content Content) *Server {
	t.Helper()
	a, err := ParseAddress(addr)
	if err != nil {
		t.Fatal(err)
	}
	if content.Status == nil {
		content.Status = sampleStatus
	}
	s, err := Serve(a, keys, content)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// answerAs is the status code that a request to a host of this name gets.
func answerAs(t *testing.T, addr Address, method, path, host, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr.String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	req.Header.Set("Authorization", bearer+token)
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func TestServeAndGet(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "api.sock")
	for _, addr := range []string{"127.0.0.1:0", "localhost:0", "unix:" + socket} {
		s := serve(t, addr, testKeys, Content{})
		parsed, err := ParseAddress(s.Addr().String())
		if err != nil {
			t.Fatalf("the address %s that is printed cannot be read: %v", s.Addr(), err)
		}
		var got sample
		raw, err := (Client{parsed, testKeys.Token}).Get(t.Context(), &got)
		want, _ := sampleStatus()
		if err != nil || !reflect.DeepEqual(any(got), want) {
			t.Errorf("%s: got %+v, %v", addr, got, err)
		}
		if !strings.Contains(string(raw), `"slot":3`) {
			t.Errorf("%s: raw answer %s", addr, raw)
		}
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v: others must not connect", info.Mode(), err)
	}
}

func TestOnlyThisMachine(t *testing.T) {
	for _, addr := range []string{
		"0.0.0.0:80", ":80", "[::]:80", "192.0.2.1:80", "example.org:80", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536",
		"", "unix:", "unix:/" + strings.Repeat("x", 200), "127.0.0.1.example.org:80", "localhost.example.org:80",
	} {
		if a, err := ParseAddress(addr); err == nil {
			t.Errorf("%q was accepted as %v", addr, a)
		}
	}
	for _, addr := range []string{"127.0.0.1:0", "127.9.9.9:80", "[::1]:80", "localhost:1", "unix:/tmp/x"} {
		if _, err := ParseAddress(addr); err != nil {
			t.Error(err)
		}
	}
}

// The metrics alone may be reached from elsewhere, and nothing else is there.
func TestMetricsOnTheirOwn(t *testing.T) {
	for _, addr := range []string{"x", "127.0.0.1", "127.0.0.1:x", ":65536", "", "unix:"} {
		if a, err := ParseMetricsAddress(addr); err == nil {
			t.Errorf("%q was accepted as %v", addr, a)
		}
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
	for addr, foreign := range map[string]int{"0.0.0.0:0": 200, ":0": 200, "localhost:0": 403} {
		a, err := ParseMetricsAddress(addr)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ServeMetrics(a, Keys{OpenMetrics: func() bool { return true }}, hello)
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(s.Addr().String())
		for _, c := range []struct {
			method, path, host string
			want               int
		}{
			{"GET", "/metrics", "", 200},
			{"GET", "/metrics", "peer.example.org:9464", foreign},
			{"POST", "/metrics", "", 405},
			{"GET", "/status", "", 404},
			{"POST", "/recover", "", 404},
		} {
			if got := answerAs(t, Address{"tcp", "127.0.0.1:" + port}, c.method, c.path, c.host, ""); got != c.want {
				t.Errorf("%s: %s %s as %q: %d, want %d", addr, c.method, c.path, c.host, got, c.want)
			}
		}
		if _, err := ServeMetrics(s.Addr(), Keys{}, hello); err == nil || !strings.Contains(err.Error(), "--metrics") {
			t.Errorf("an address that is taken: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRefusals(t *testing.T) {
	s := serve(t, "127.0.0.1:0", testKeys, Content{})
	for _, c := range []struct {
		method, path, host string
		want               int
	}{
		{"GET", "/status", "", 200},
		{"GET", "/status", "localhost:1", 200},
		{"GET", "/status", "[::1]", 200},
		{"GET", "/status", "rebound.example.org", 403},
		{"GET", "/status", "rebound.example.org:80", 403},
		{"GET", "/status", "192.0.2.1", 403},
		{"POST", "/status", "", 405},
		{"DELETE", "/status", "", 405},
		{"GET", "/", "", 404},
		{"GET", "/debug/pprof/", "", 404},
	} {
		if got := answerAs(t, s.Addr(), c.method, c.path, c.host, testKeys.Token); got != c.want {
			t.Errorf("%s %s of host %q: %d, want %d", c.method, c.path, c.host, got, c.want)
		}
	}
}

func TestStarting(t *testing.T) {
	s := serve(t, "127.0.0.1:0", testKeys, Content{Status: func() (any, bool) { return nil, false }})
	if _, err := (Client{s.Addr(), testKeys.Token}).Get(t.Context(), &sample{}); err == nil ||
		!strings.Contains(err.Error(), "starting") {
		t.Errorf("got %v", err)
	}
}

func TestSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	a := Address{"unix", path}
	if _, err := Serve(a, testKeys, Content{Status: sampleStatus}); err == nil {
		t.Error("a living socket was taken over")
	}
	l.Close() // as a killed process leaves it
	serve(t, a.String(), testKeys, Content{})
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Serve(Address{"unix", plain}, testKeys, Content{Status: sampleStatus}); err == nil {
		t.Error("a plain file was replaced by a socket")
	}
	taken := serve(t, "127.0.0.1:0", testKeys, Content{}).Addr()
	if _, err := Serve(taken, testKeys, Content{}); err == nil || !strings.Contains(err.Error(), "--api") {
		t.Errorf("a port in use: %v, want a way out", err)
	}
}

func TestGetFromStrangers(t *testing.T) {
	for name, answer := range map[string]string{
		"no status": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhey!",
		"no HTTP":   "hello\r\n",
		"an error":  "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = c.Read(make([]byte, 1024))
			_, _ = io.WriteString(c, answer)
		}()
		if _, err := (Client{Address{"tcp", l.Addr().String()}, ""}).Get(context.Background(), &sample{}); err == nil {
			t.Errorf("%s: no error", name)
		}
		l.Close()
		<-done
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add("127.0.0.1:80")
	f.Add("unix:/tmp/x")
	f.Add("[::1]:1")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddress(s)
		if err != nil || a.network == "unix" {
			return
		}
		host, _, err := net.SplitHostPort(a.place)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			t.Errorf("%q became %q", s, a.place)
		}
		if again, err := ParseAddress(a.String()); err != nil || again != a {
			t.Errorf("%q reads as %v, %v", a, again, err)
		}
	})
}
