package p2pdiloco

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stripping are the calls that make a time of one without Go's monotonic reading, or a number of
// it: comparing such times is comparing wall clocks, which jump.
var stripping = []string{
	"Unix", "UnixMilli", "UnixMicro", "UnixNano", "Date", "Parse", "ParseInLocation", "UTC", "Local", "In", "Truncate",
	"AddDate", "Round",
}

// wallClock are the places that may know the time of day: what they make of it is shown, or
// survives a jump (TestAClockThatJumpsForgetsNobody).
var wallClock = []string{
	"events.go: UTC",                  // an event's time, to be read
	"internal/eventlog/line.go: Time", // the same
	"metrics.go: Time",                // a slot's, to be read
	"metrics.go: UTC",                 // the same
	// A page, a terminal and a tracker show when things were.
	"internal/view/events.go: Time", "internal/view/history.go: Unix",
	"internal/view/screen.go: Local", "internal/view/document/tensorboard.go: Unix",
	"internal/view/document/tensorboard.go: UnixNano",
	"p2p/internal/peers/addressbook.go: Seen", // when a remembered peer was seen
	"p2p/paths.go: Since",                     // since when a connection is there, to be read
	// Tickets end at a date.
	"internal/node/admission/guard.go: Unix", "internal/ticket/encode.go: Unix", "internal/ticket/encode.go: UTC",
	"internal/ticket/ticket.go: Unix",
	"node.go: UTC", "admission.go: Local",
	// A probe compares two clocks.
	"p2p/probe.go: UnixNano", "p2p/probe.go: Unix", "p2p/probe.go: Round",
	// a machine that slept: its monotonic clock may have stood still
	"membership/driverloop.go: Round",
	// the same; a jump forwards has one audit blame nobody
	"internal/node/auditor/standstill.go: Round",
	// Certificates hold at all times, so these two are no times of day.
	"p2p/internal/bulk/certificate.go: Unix", "p2p/internal/bulk/certificate.go: Date",
}

// Nothing in agreement, liveness or transfer uses the wall clock: a jump of it changes nothing.
// Go's time.Now has a monotonic reading, which Sub, Since, Before and timers use. So it suffices
// that nobody strips it, or keeps a time on disk or in a message.
func TestTheWallClockDecidesNothing(t *testing.T) {
	var found []string
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && path != "." && (strings.HasPrefix(e.Name(), ".") ||
			slices.Contains([]string{"cmd", "bridge", "examples", "docs", "internal/lab", "internal/nodetest"},
				filepath.ToSlash(path))) {
			return filepath.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			found = append(found, wallClockUses(filepath.ToSlash(path), f)...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, use := range found {
		if !slices.Contains(wallClock, use) {
			t.Errorf(
				"%s uses the wall clock: compare times with Sub and Since, and send and save durations or counters",
				use,
			)
		}
	}
	for _, use := range wallClock {
		if !slices.Contains(found, use) {
			t.Errorf("%s is excepted and not there", use)
		}
	}
}

// wallClockUses lists "file: name" of calls that strip the monotonic reading and of struct fields
// with a tag that hold a time.
func wallClockUses(path string, f *ast.File) (uses []string) {
	if !slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"time"` }) {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(stripping, s.Sel.Name) &&
				!isDuration(n, s) && !parsesOther(s) {
				uses = append(uses, path+": "+s.Sel.Name)
			}
		case *ast.Field:
			if s, ok := n.Type.(*ast.SelectorExpr); ok && n.Tag != nil && s.Sel.Name == "Time" && len(n.Names) > 0 {
				uses = append(uses, path+": "+n.Names[0].Name)
			}
		}
		return true
	})
	return uses
}

// isDuration excepts d.Round(unit) of durations: a time is rounded by Round(0) to strip it.
func isDuration(call *ast.CallExpr, s *ast.SelectorExpr) bool {
	if s.Sel.Name != "Round" && s.Sel.Name != "Truncate" {
		return false
	}
	if len(call.Args) == 0 { // another type's method
		return true
	}
	zero, ok := call.Args[0].(*ast.BasicLit)
	return !ok || zero.Value != "0"
}

// parsesOther excepts Parse of other packages than time.
func parsesOther(s *ast.SelectorExpr) bool {
	x, ok := s.X.(*ast.Ident)
	return s.Sel.Name == "Parse" && !(ok && x.Name == "time")
}
