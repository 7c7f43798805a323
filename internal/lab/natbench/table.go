package natbench

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// Print writes the tables, in Markdown, and the settings of the measurement.
func (r Result) Print(out io.Writer) { _, _ = io.WriteString(out, "\n"+r.Markdown()) }

// Markdown is the tables as docs/connectivity.md has them.
func (r Result) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Links of %s, %s one way between public hosts; peers with `--preset %s`.\n", r.rate(),
		seconds(r.Delay), r.Preset)
	if len(r.Pairs) > 0 {
		b.WriteString("\n| one | other | connected | after | in the end | after | first slot after |\n| --- | --- | " +
			"--- | --- | --- | --- | --- |\n")
	}
	for _, p := range r.Pairs {
		cells := []string{string(p.A), string(p.B), p.First.String(), p.First.after(), "", "", ""}
		if !p.Connected {
			cells[2] = fmt.Sprintf("not connected within %g s", r.Limit)
		}
		if p.Last != p.First {
			cells[4], cells[5] = p.Last.String(), p.Last.after()
		}
		if p.Slot > 0 {
			cells[6] = seconds(p.Slot)
		}
		if p.Error != "" {
			cells[4] = "failed: " + firstLine(p.Error)
		}
		writeRow(&b, cells)
	}
	if r.Four != nil {
		r.Four.write(&b)
	}
	return b.String()
}

func (f *Four) write(b *strings.Builder) {
	fmt.Fprintf(b, "\nFour peers (%s), %.1f MiB of float32, reduced in every slot. ", strings.Join(f.Peers, ", "),
		float64(4*f.Parameters)/(1<<20))
	var ways []string
	for _, p := range f.Ways {
		how := p.Last.String()
		if !p.Connected {
			how = "not connected"
		}
		ways = append(ways, fmt.Sprintf("%s and %s %s", p.A, p.B, how))
	}
	fmt.Fprintf(b, "Before the first: %s.\n\n", strings.Join(ways, "; "))
	b.WriteString("| slot | what happens to it | first peer has it after | all have it after | contributors | state " +
		"roots |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, s := range f.Steps {
		what, roots := s.What, "differ"
		if s.Note != "" {
			what += " (" + s.Note + ")"
		}
		if s.Equal {
			roots = "equal"
		}
		if s.Error != "" {
			roots = "failed: " + firstLine(s.Error)
		}
		writeRow(b, []string{fmt.Sprint(s.Slot), what, maybe(s.First), maybe(s.All), fmt.Sprint(s.Contributors), roots})
	}
}

func writeRow(b *strings.Builder, cells []string) {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", "/")
	}
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// String is a line for the progress of the measurement.
func (p Pair) String() string {
	text := fmt.Sprintf("%s and %s: ", p.A, p.B)
	switch {
	case p.Error != "":
		return text + p.Error
	case !p.Connected:
		return text + "not connected"
	}
	text += fmt.Sprintf("%s after %s", p.First, p.First.after())
	if p.Last != p.First {
		text += fmt.Sprintf(", %s after %s", p.Last, p.Last.after())
	}
	if p.Slot == 0 {
		return text + ", no slot"
	}
	return text + fmt.Sprintf(", first slot after %s", seconds(p.Slot))
}

func (s Step) String() string {
	text := fmt.Sprintf("slot %d, %s", s.Slot, s.What)
	if s.Note != "" {
		text += " (" + s.Note + ")"
	}
	if s.Error != "" {
		return text + ": " + s.Error
	}
	return fmt.Sprintf("%s: first peer has it after %s, all after %s, %d contributors", text, seconds(s.First),
		seconds(s.All), s.Contributors)
}

// String is the way in words: "punched, quic-v1".
func (w Way) String() string {
	if w.Transport == "" {
		return w.Name
	}
	return w.Name + ", " + w.Transport
}

func (w Way) after() string {
	if w.Name == "" {
		return ""
	}
	return seconds(w.Seconds)
}

func (r Result) rate() string {
	return cmp.Or(sources.Rate(r.Rate).String(), "no limit")
}

func seconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.0f ms", 1000*s)
	}
	return fmt.Sprintf("%.1f s", s)
}

func maybe(s float64) string {
	if s == 0 {
		return ""
	}
	return seconds(s)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// Marks in a document between which the tables stand.
const (
	markBegin = "<!-- nat: sudo p2plab bench nat --write docs/connectivity.md -->\n"
	markEnd   = "<!-- /nat -->\n"
)

// CheckFile says whether Write can put tables into the file at path.
func CheckFile(path string) error {
	_, _, err := around(path)
	return err
}

// Write puts the tables into the file at path, in place of those that stand there.
func (r Result) Write(path string) error {
	before, after, err := around(path)
	if err != nil {
		return err
	}
	if err := disk.Replace(disk.OS, path, []byte(before+markBegin+r.Markdown()+markEnd+after)); err != nil {
		return err
	}
	return os.Chmod(path, 0o644) // it is there to be read
}

// around is the text before and after the tables.
func around(path string) (before, after string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	before, rest, begun := strings.Cut(string(text), markBegin)
	_, after, ended := strings.Cut(rest, markEnd)
	if !begun || !ended {
		return "", "", fmt.Errorf("%s has no place for the tables: two lines, %q and %q", path,
			strings.TrimSpace(markBegin), strings.TrimSpace(markEnd))
	}
	return before, after, nil
}
