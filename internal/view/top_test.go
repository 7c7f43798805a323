package view

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/p2pdiloco/p2pdiloco"
)

// crowd is a run of so many members, of which one goes through a relay.
func crowd(members int) Newest {
	s := Newest{Known: true, events: events{all: []Event{
		{Time: time.Now(), Text: "old"}, {Time: time.Now(), Text: "paused: no quorum", Grave: true},
	}}}
	s.Run.Name, s.Now.Phase, s.Now.Slot, s.Now.LastSlot = "books", "running", 7, 90
	s.Now.Headline = "slot 8 waits for q (3 of 20 steps)"
	s.Now.Notes = []string{"this branch may still end for another one", s.Now.Headline}
	s.Now.Loss, s.Now.LossSlot = new(2.5), 7
	s.Now.Stage = &Stage{Steps: 10, Of: 20, LeftSeconds: new(4.2)}
	s.Bytes.Sent, s.Bytes.Parallel = 1e6, 5e7
	s.Agreement = &Agreement{Height: 9}
	s.Agreement.Text = "4 electors: withstands 1 that lies or is gone"
	for i := range members {
		s.Members = append(s.Members, Member{
			Short: fmt.Sprintf("m%03d", i), State: "training", Role: "elector", Contributes: true, Way: "direct",
			Transport: "tcp", RTTMillis: new(1.5), Norm: new(float64(i)), Steps: uint32(i), Of: 20,
		})
	}
	s.Members[0].Name, s.Members[0].Says = "attic", &p2pdiloco.Claims{TokensPerSecond: new(1234.)}
	s.Members[0].Way, s.Members[0].Transport, s.Members[0].Rate, s.Members[0].Norm = "relayed", "", 1200, nil
	s.Agreement.TermsLost, s.Agreement.Terms = 3, "none at this height; at the newest 64: 3 by m001"
	s.Members[0].Warnings = []string{"Its bytes go through q: " + strings.Repeat("open a port ", 20)}
	s.history.points = []Point{{Loss: new(3.)}, {Loss: new(2.75)}, {Loss: new(2.5)}}
	return s
}

func after(m tea.Model, messages ...tea.Msg) tea.Model {
	for _, msg := range messages {
		m, _ = m.Update(msg)
	}
	return m
}

// shown is the text on the screen, without colours.
func shown(m tea.Model) string { return styles.ReplaceAllString(m.View().Content, "") }

var styles = regexp.MustCompile("\x1b\\[[0-9;]*m")

func key(letter rune) tea.Msg { return tea.KeyPressMsg{Code: letter, Text: string(letter)} }

// Whatever the terminal's size is, the screen fits into it, and begins with what is waited for.
func TestScreenFits(t *testing.T) {
	for _, size := range []tea.WindowSizeMsg{
		{Width: 80, Height: 24}, {Width: 200, Height: 60}, {Width: 30, Height: 9}, {},
	} {
		for _, now := range []Newest{{}, {Fault: "it has ended: " + strings.Repeat("x ", 99)}, crowd(1), crowd(500)} {
			screen := after(Screen{}, size, now).View().Content
			lines := strings.Split(screen, "\n")
			if len(lines) > max(1, size.Height) {
				t.Errorf("%v: %d lines:\n%s", size, len(lines), screen)
			}
			for _, line := range lines[:len(lines)-1] {
				if size.Width > 0 && lipgloss.Width(line) > size.Width {
					t.Errorf("%v: %d columns: %s", size, lipgloss.Width(line), line)
				}
			}
		}
	}
	screen := shown(after(Screen{}, tea.WindowSizeMsg{Width: 120, Height: 40}, crowd(3)))
	for _, want := range []string{
		"run books  running  slot 7 of 90", "slot 8 waits for q",
		"████████████░░░░░░░░░░░░  step 10 of 20  about 4 s left",
		"this branch may still end",
		"2.5000 held out, after slot 7  █▄▁", "50 times less", "height 9; 4 electors",
		"terms lost  none at this height; at the newest 64: 3 by", "direct tcp 1.5 ms",
		"relayed 1.2 MB/s 1.5 ms", "attic", "1234",
		"paused: no quorum",
	} {
		if !strings.Contains(screen, want) {
			t.Errorf("%q is missing:\n%s", want, screen)
		}
	}
	if strings.Count(screen, "slot 8 waits") != 1 || strings.Contains(screen, "SHARE") ||
		strings.Contains(screen, "TRIMMED") || strings.Index(screen, "paused") > strings.Index(screen, "old") {
		t.Error(screen)
	}
}

// The members are sorted by the column that is chosen, those without a value last, and move.
func TestKeys(t *testing.T) {
	m := after(Screen{}, tea.WindowSizeMsg{Width: 120, Height: 40}, crowd(20))
	first := func() string {
		_, table, _ := strings.Cut(shown(m), "MEMBER")
		return strings.Fields(strings.Split(table, "\n")[1])[0]
	}
	for _, c := range []struct{ keys, want string }{
		{"", "m000"},
		{"ssss", "m019"},
		{"ss", "m019"},
		{"r", "m001"},
		{"jj", "m003"},
		{"k", "m002"},
		{"kkk", "m001"},
		{"rsss", "m000"},
	} {
		for _, k := range c.keys {
			m = after(m, key(k))
		}
		if got := first(); got != c.want {
			t.Errorf("after %s: %s, want %s:\n%s", c.keys, got, c.want, shown(m))
		}
	}
	if _, quit := m.Update(key('q')); quit == nil {
		t.Error("q does not end it")
	}
}

// A line of marks shows how values went, and no more of them than there is room for.
func TestSpark(t *testing.T) {
	for want, values := range map[string][]float64{
		"": {1}, "▁▁": {2, 2}, "█▄▁": {3, 2, 1}, "▁▄█▁▄": {9, 9, 1, 2, 3, 1, 2},
	} {
		if got := spark(values, 5); got != want {
			t.Errorf("%v: %s, want %s", values, got, want)
		}
	}
	if got := spark([]float64{1, 2}, 0); got != "" {
		t.Error(got)
	}
}
