package p2pdiloco

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Scripts are written by docs/reference/events.md: an event that the page lacks is found by
// nobody, and one that no code emits is waited for in vain.
func TestThePageOfEventsHasAllThatAreEmitted(t *testing.T) {
	page, err := os.ReadFile("docs/reference/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(string(page), "| event | fields |")
	rows, _, _ = strings.Cut(rows, "\n## ")
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(rows, -1) {
		for _, name := range eventName.FindAllString(row[1], -1) {
			documented[name] = true
		}
	}
	emitted := eventsInCode(t)
	for _, name := range slices.Sorted(maps.Keys(emitted)) {
		if !documented[name] {
			t.Errorf("docs/reference/events.md lacks %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if !emitted[name] {
			t.Errorf("docs/reference/events.md has %s, which no code names", name)
		}
	}
	code, err := os.ReadFile("membership/event.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`Reason = "(\w+)"`).FindAllSubmatch(code, -1)
	for _, reason := range reasons {
		if !strings.Contains(rows, "`"+string(reason[1])+"`") {
			t.Errorf("docs/reference/events.md lacks the reason %s", reason[1])
		}
	}
	if len(reasons) == 0 {
		t.Error("the code has no reasons")
	}
}

// The page has the fields of each event of the ledger.
func TestThePageOfEventsHasTheFieldsOfTheLedger(t *testing.T) {
	page, err := os.ReadFile("docs/reference/events.md")
	noError(t, err)
	rows := strings.Split(string(page), "\n")
	for kind, fields := range ledgerFields {
		at := slices.IndexFunc(rows, func(row string) bool {
			first, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
			return strings.Contains(first, "`"+string(kind)+"`")
		})
		if at < 0 {
			t.Fatalf("there is no row of %s", kind)
		}
		row := rows[at]
		if strings.Contains(row, "the same") {
			row += rows[at-1]
		}
		for field := range strings.FieldsSeq(fields) {
			name, _, _ := strings.Cut(field, "=")
			if !regexp.MustCompile(`\b` + name + `\b`).MatchString(row) {
				t.Errorf("the row of %s lacks %s", kind, name)
			}
		}
	}
}

// An event goes through JSON and back, and its fields into a struct: with the types that they have.
func TestEventsAsJSON(t *testing.T) {
	now := time.Unix(5, 6).UTC()
	e := Event{Time: now, Name: "slot.applied", Peer: "p", Fields: map[string]any{
		"slot": uint64(1<<63 + 1), "state_root": Root{7}, "about": PeerID("q"),
	}}
	line, err := json.Marshal(e)
	noError(t, err)
	var back Event
	noError(t, json.Unmarshal(line, &back))
	if back.Time != now || back.Name != e.Name || back.Peer != "p" {
		t.Errorf("%+v", back)
	}
	for _, e := range []Event{e, back} {
		var applied struct {
			Slot      uint64
			StateRoot Root `json:"state_root"`
			About     PeerID
		}
		if err := e.Decode(&applied); err != nil || applied.Slot != 1<<63+1 || applied.StateRoot != (Root{7}) ||
			applied.About != "q" {
			t.Errorf("%+v, %v", applied, err)
		}
	}
}

// Lines come from a peer's API, which any program of this user may serve.
func FuzzParseEvent(f *testing.F) {
	f.Add([]byte(`{"time":"2026-01-02T03:04:05Z","event":"peer.left","peer":"x","about":"q","slot":3}`))
	f.Add([]byte(`{"time":3,"event":[]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var e Event
		if json.Unmarshal(line, &e) == nil && e.Name == "" && string(bytes.TrimSpace(line)) != "null" {
			t.Errorf("%q is %+v", line, e)
		}
	})
}

// eventName is all that an event may be called: the families are those of the page.
var eventName = regexp.MustCompile(
	`\b(access|admission|clock|donor|members|peer|record|run|secret|slot|state|trainer|vote)\.[a-z_]+\b`)

// files are in the data directory, and named like events.
var files = []string{"admission.next", "admission.secret", "admission.used", "run.spec", "trainer.state"}

// eventsInCode returns all string literals in the code of a node that are names of events.
func eventsInCode(t *testing.T) map[string]bool {
	names := map[string]bool{}
	for _, root := range []string{
		"*.go", "internal/node", "membership",
		"allreduce/figures",
	} {
		dirs, err := filepath.Glob(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
					return err
				}
				f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
				if err != nil {
					return err
				}
				ast.Inspect(f, func(n ast.Node) bool {
					if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
						text, _ := strconv.Unquote(lit.Value)
						if text != "" && eventName.FindString(text) == text && !slices.Contains(files, text) {
							names[text] = true
						}
					}
					return true
				})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return names
}
