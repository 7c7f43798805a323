package browser

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

const (
	manyMembers = 500
	manySlots   = 10_000
	// opens is how much of a processor's time it may take to show a run
	opens = time.Second
)

// markup is a name that no peer hands to its page. It shows it as text all the same.
const markup = "<img src=x onerror=a()>"

// object is a document of JSON of the program.
type object = map[string]any

// enlarge makes a data directory of a peer whose run has many members and slots: those of a real run,
// again and again. It serves what that peer would say.
func (s *swarm) enlarge(t *testing.T) (dir string) {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), s.program, "status", "--json", "--data-dir", s.peers[0].dir).Output()
	status := object{}
	if err == nil {
		err = json.Unmarshal(text, &status)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	s.enlargeMetrics(t, filepath.Join(dir, "metrics.jsonl"))
	enlargeMembers(status)
	status["last_slot"], status["slot"] = 2*manySlots, manySlots
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, status)
	for name, text := range map[string]string{"api": l.Addr().String(), "api.token": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// serve answers as a peer. The members train, so that each answer is another one.
func serve(t *testing.T, l net.Listener, status object) {
	asked := 0
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		asked++
		for i, m := range status["members"].([]any) {
			m.(object)["steps"] = (7*asked + i) % 40
		}
		_ = json.NewEncoder(w).Encode(status)
	})
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"events":[],"next":0}`))
	})
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
}

func enlargeMembers(status object) {
	own := status["members"].([]any)
	all := slices.Clone(own)
	for i := len(own); i < manyMembers; i++ {
		m := maps.Clone(own[i%len(own)].(object))
		delete(m, "self")
		m["peer"] = peerID(i)
		if i == manyMembers-2 {
			m["state"] = "late"
		}
		if says, ok := m["says"].(object); ok {
			says = object{"tokens_per_second": 1000 + i, "loss": 2 + float64(i)/1000, "version": says["version"]}
			says["name"] = fmt.Sprintf("rack-%d/gpu-%d", i/8, i%8)
			if i == manyMembers-1 {
				says["name"] = markup
			}
			m["says"] = says
		}
		all = append(all, m)
	}
	status["members"] = all
}

// peerID is the ID of a peer with an Ed25519 key: the identity multihash of it, in base 58.
func peerID(i int) string {
	const digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	key := sha256.Sum256([]byte(strconv.Itoa(i)))
	n := new(big.Int).SetBytes(append([]byte{0, 0x24, 8, 1, 0x12, 0x20}, key[:]...))
	var id []byte
	for digit, base := new(big.Int), big.NewInt(58); n.Sign() > 0; {
		n.DivMod(n, base, digit)
		id = append(id, digits[digit.Int64()])
	}
	slices.Reverse(id)
	return "1" + string(id)
}

func (s *swarm) enlargeMetrics(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.peers[0].dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	line := object{}
	if err := json.Unmarshal(lines[len(lines)-1], &line); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for slot := 1; slot <= manySlots; slot++ {
		line["slot"], line["height"], line["held_out_slot"] = slot, slot+4, slot-1
		line["time"] = time.Unix(1.8e9+int64(slot)*40, 0).UTC()
		line["loss"], line["held_out_loss"] = 2+2/math.Sqrt(float64(slot)), 2.1+2/math.Sqrt(float64(slot))
		line["run_tokens"] = slot * 40960
		if err := json.NewEncoder(&all).Encode(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, all.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// large shows a large run: on the page, by status and by top. They are measured by the processor's time,
// which depends less than seconds on what else the machine does: it doubles where four times as many
// processes want to run as there are cores.
func (s *swarm) large(browser context.Context, t *testing.T) {
	dir := s.enlarge(t)
	url, page := dashboard(t, s.program, dir)
	b := open(browser, t, "about:blank")
	b.do("measure", performance.Enable().WithTimeDomain(performance.EnableTimeDomainThreadTicks))
	before := b.busy()
	b.do("open the page", chromedp.Navigate(url))
	shown := fmt.Sprintf(`document.querySelectorAll("#table tbody").length === %d &&
		document.querySelector("#values td")?.textContent === "%d"`, manyMembers, manySlots)
	until(t, "all members and slots are shown", func() bool { return value[bool](b, shown) })
	if !slices.Contains(b.members(), markup) {
		t.Errorf("%s is not shown as text", markup)
	}
	took(t, "dashboard and its page", b.busy()-before+cpu(t, page.Process.Pid))
	b.look(390, "light")
	b.shows("#table .warnings p", "It is late")
	if value[bool](b, `[...document.querySelectorAll("#table .warnings p")].some((p) =>
			p.getBoundingClientRect().right > innerWidth)`) {
		t.Error("a warning is cut off on a phone")
	}
	b.isClean()

	for command, shows := range map[string]string{"status": "members  500", "top": "rack-"} {
		shell := "stty rows 40 cols 160; exec " + s.program + " " + command + " --data-dir " + dir
		p := prepare(t, s.home, "script", "-qec", shell, "/dev/null") // in a terminal that answers nothing
		keys, err := p.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		p.begin(t)
		until(t, command+" shows the members", func() bool { return strings.Contains(p.out.text(), shows) })
		seconds := time.Since(began)
		if _, err := keys.Write([]byte("q")); err != nil && command == "top" {
			t.Error(err)
		}
		<-p.ended
		took(t, command, p.ProcessState.UserTime()+p.ProcessState.SystemTime())
		if seconds > 4*time.Second {
			t.Errorf("%s waits %v until it shows anything", command, seconds)
		}
	}
}

func took(t *testing.T, what string, of time.Duration) {
	t.Helper()
	t.Logf("%d members, %d slots: %s takes %v of a processor", manyMembers, manySlots, what, of)
	if of > opens {
		t.Errorf("that is more than %v", opens)
	}
}

// busy is how much of a processor's time the page has taken.
func (b *tab) busy() (all time.Duration) {
	b.t.Helper()
	var metrics []*performance.Metric
	b.do("the page's time", chromedp.ActionFunc(func(ctx context.Context) (err error) {
		metrics, err = performance.GetMetrics().Do(ctx)
		return err
	}))
	for _, m := range metrics {
		if m.Name == "TaskDuration" {
			all = time.Duration(m.Value * float64(time.Second))
		}
	}
	return all
}

// cpu is how much of a processor's time a process has taken.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text))
	var ticks int64
	for _, field := range fields[13:15] { // of 10 ms: user, system
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
