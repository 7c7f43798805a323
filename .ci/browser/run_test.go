// Package browser opens the page of p2pdiloco dashboard in Chromium: that of a run of five processes, and
// that of a simulated one of 500 members.
//
//	P2PDILOCO_AXE=axe.min.js  tell axe-core's findings
//	P2PDILOCO_PICTURES=docs   write dashboard-light.png, dashboard-dark.png and dashboard-phone.png there
package browser

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// looks are the sizes and colours in which the page is examined.
var looks = []struct {
	name, colours string
	width         int64
}{
	{"light", "light", 1240}, {"dark", "dark", 1240}, {"phone", "light", 390},
}

// A run on its page: the table is sorted, a member is found, and two operators remove it, each on the
// page of its own peer. What they do is seen on both pages.
func TestRun(t *testing.T) {
	s := startSwarm(t)
	browser := chromium(t)
	one := open(browser, t, s.page(t, 0))
	two := open(browser, t, s.page(t, 1))
	for _, b := range []*tab{one, two} {
		until(t, "all five with their names", func() bool {
			all := b.members()
			slices.Sort(all)
			return slices.Equal(all, []string{"archive", "attic", "lab/gpu-10", "lab/gpu-2", "office-4090"})
		})
	}
	until(t, "the loss of ten slots", func() bool {
		return value[int](one, `document.querySelectorAll("#values tbody tr").length`) >= 10
	})
	one.sorts()
	for _, look := range looks {
		one.look(look.width, look.colours)
		one.examine(look.name)
		one.picture(look.name)
	}
	one.look(1240, "light")
	one.asks("The peer <b>trains</b>", "The model after slot ", "The peer <b>trains</b>")
	three := open(browser, t, s.page(t, 4))
	three.asks("The peer", "the peer refuses: no trainer of this peer's can answer", "")
	three.isClean()
	s.large(browser, t)

	one.finds("gpu-2")
	one.removes("lab/gpu-2", "Cancel")
	time.Sleep(3 * time.Second) // the page hears of a motion within a second
	if text := value[string](one, `document.querySelector("#motions").innerText`); text != "" {
		t.Error("a motion that was cancelled:", text)
	}
	one.removes("lab/gpu-2", "Remove")
	const motion = "A motion to remove lab/gpu-2: 1 member has it, 1 more make"
	one.shows("#motions", motion)
	two.shows("#motions", motion)
	two.removes("lab/gpu-2", "Remove")
	for _, b := range []*tab{one, two} {
		until(t, "four members", func() bool { return !slices.Contains(b.members(), "lab/gpu-2") })
		b.shows("#motions", "is removed")
		b.shows("#events", "lab/gpu-2")
		b.isClean()
	}
	removed := s.peers[2].process
	<-removed.ended
	if removed.ProcessState.Success() {
		t.Error("the peer that was removed ended with status 0")
	}
}

// sorts sorts the members by their names and by a number, both ways, and as before.
func (b *tab) sorts() {
	b.t.Helper()
	usual := b.members()
	byName := []string{"archive", "attic", "lab/gpu-2", "lab/gpu-10", "office-4090"}
	b.click(`//*[@id="columns"]//button[text()="Member"]`)
	if got := b.members(); !slices.Equal(got, byName) {
		b.t.Error("by name:", got)
	}
	b.click(`//*[@id="columns"]//button[text()="Member"]`)
	slices.Reverse(byName)
	if got := b.members(); !slices.Equal(got, byName) {
		b.t.Error("by name, the other way round:", got)
	}
	b.click(`//*[@id="columns"]//button[text()="Member"]`)
	if got := b.members(); !slices.Equal(got, usual) {
		b.t.Errorf("as usual: %v, it was %v", got, usual)
	}
	b.click(`//*[@id="columns"]//button[text()="Share"]`)
	if got := b.members(); got[4] != "archive" {
		b.t.Error("by share, a member that has none is not the last:", got)
	}
	got := value[string](b, `document.querySelector("[aria-sort]").innerText.trim()`)
	if !strings.HasPrefix(got, "Share") {
		b.t.Error("a screen reader hears that the table is sorted by", got)
	}
	b.click(`//*[@id="columns"]//button[text()="Share"]`)
	b.click(`//*[@id="columns"]//button[text()="Share"]`)
}

// finds shows the member with a text alone, and all again.
func (b *tab) finds(text string) {
	b.t.Helper()
	b.do("search", chromedp.SendKeys("#filter", text))
	if got := b.members(); !slices.Equal(got, []string{"lab/" + text}) {
		b.t.Errorf("%s finds %v", text, got)
	}
	b.shows("#members-text", "4 not shown")
	b.do("search for all", chromedp.SendKeys("#filter", strings.Repeat("\b", len(text))))
	if got := b.members(); len(got) != 5 {
		b.t.Error("without a text it finds", got)
	}
}

// removes opens the dialog about a member, which says the whole ID, and answers it.
func (b *tab) removes(name, answer string) {
	b.t.Helper()
	b.click(`//button[@aria-label="Remove ` + name + `"]`)
	b.shows("#dialog[open] #dialog-title", "Remove "+name+"?")
	b.shows("#dialog[open] #dialog-text", "12D3KooW")
	b.click(`//*[@id="dialog"]//button[text()="` + answer + `"]`)
	until(b.t, "the dialog is closed", func() bool { return !value[bool](b, `document.querySelector("#dialog").open`) })
}

// asks asks the model, waits for what is said of the answer, and looks whether that has a text.
func (b *tab) asks(prompt, said, text string) {
	b.t.Helper()
	b.do("write a prompt", chromedp.SendKeys("#prompt", prompt))
	b.click(`//*[@id="ask-do"]`)
	b.shows("#ask-text", said)
	b.shows("#answer", text)
	if value[bool](b, `document.querySelector("#answer").hidden`) != (text == "") {
		b.t.Errorf("whether an answer is shown: not what %q says", said)
	}
}

// examine tells axe-core's findings, where there is one, and fails with those that keep people out.
func (b *tab) examine(look string) {
	b.t.Helper()
	path := os.Getenv("P2PDILOCO_AXE")
	if path == "" {
		b.t.Log("P2PDILOCO_AXE is not set: axe-core did not look at the page, " + look)
		return
	}
	axe, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	b.do("axe-core", chromedp.Evaluate(string(axe), nil))
	type finding struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	found := value[struct{ Passes, Violations []finding }](b, "axe.run()")
	if len(found.Passes) < 10 {
		b.t.Errorf("%s: axe-core looked at next to nothing: %+v", look, found.Passes)
	}
	for _, f := range found.Violations {
		say := b.t.Logf
		if f.Impact == "serious" || f.Impact == "critical" {
			say = b.t.Errorf
		}
		say("%s: %s, %s: %s: %+v", look, f.Impact, f.ID, f.Help, f.Nodes)
	}
}

// picture writes a picture of the whole page, where a folder is given.
func (b *tab) picture(look string) {
	b.t.Helper()
	folder := os.Getenv("P2PDILOCO_PICTURES")
	if folder == "" {
		return
	}
	var page []byte
	b.do("the picture", chromedp.FullScreenshot(&page, 100))
	full, err := png.Decode(bytes.NewReader(page))
	if err != nil {
		b.t.Fatal(err)
	}
	small := fewColours(full)
	f, err := os.Create(filepath.Join(folder, "dashboard-"+look+".png"))
	if err == nil {
		err = errors.Join((&png.Encoder{CompressionLevel: png.BestCompression}).Encode(f, small), f.Close())
	}
	if err != nil {
		b.t.Error(err)
	}
}

// fewColours is a picture in its 256 most frequent colours, which takes a third of the bytes.
func fewColours(full image.Image) *image.Paletted {
	often := map[color.Color]int{}
	for y := range full.Bounds().Max.Y {
		for x := range full.Bounds().Max.X {
			often[full.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(often), func(a, b color.Color) int { return often[b] - often[a] })
	small := image.NewPaletted(full.Bounds(), colours[:min(256, len(colours))])
	nearest := map[color.Color]uint8{}
	for c := range often {
		nearest[c] = uint8(small.Palette.Index(c))
	}
	for y := range full.Bounds().Max.Y {
		for x := range full.Bounds().Max.X {
			small.SetColorIndex(x, y, nearest[full.At(x, y)])
		}
	}
	return small
}
