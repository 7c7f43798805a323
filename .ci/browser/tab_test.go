package browser

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// chromium starts a browser without a window, which ends with the test.
func chromium(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it has none as root
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("%v: is chromium installed?", err)
	}
	return ctx
}

// tab is a tab of the browser.
type tab struct {
	t   *testing.T
	ctx context.Context
	mu  sync.Mutex
	bad []string // exceptions, and errors of the console: a breach of the policy is one
}

// open opens a page in a new tab.
func open(browser context.Context, t *testing.T, url string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, b.listen)
	if err := chromedp.Run(ctx); err != nil { // the context of the first Run is the tab's
		t.Fatal(err)
	}
	b.do("open the page", chromedp.Navigate(url))
	return b
}

// isClean fails the test with what its page did wrong.
func (b *tab) isClean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, said := range b.bad {
		b.t.Error("the page:", said)
	}
}

func (b *tab) listen(event any) {
	said := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		said = e.ExceptionDetails.Error()
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			said = e.Entry.Text + " " + e.Entry.URL
		}
	}
	if said != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.bad = append(b.bad, said)
	}
}

// do carries out actions, in half a minute.
func (b *tab) do(what string, actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// value is what an expression is in the page, which may be a promise.
func value[V any](b *tab, script string) (v V) {
	b.t.Helper()
	wait := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	b.do(script[:min(len(script), 200)], chromedp.Evaluate(script, &v, wait))
	return v
}

// shows waits until an element's text has a text.
func (b *tab) shows(selector, text string) {
	b.t.Helper()
	script := fmt.Sprintf("[...document.querySelectorAll(%s)].some((e) => e.innerText.includes(%s))",
		strconv.Quote(selector), strconv.Quote(text))
	shown := false
	defer func() {
		if !shown {
			b.t.Log(value[string](b, "document.body.innerText"))
		}
	}()
	until(b.t, selector+" shows "+text, func() bool { return value[bool](b, script) })
	shown = true
}

// click clicks on an element, as a mouse does.
func (b *tab) click(xpath string) {
	b.t.Helper()
	b.do("click on "+xpath, chromedp.Click(xpath, chromedp.BySearch))
}

// look sets the size of the window, and the colours that the user prefers.
func (b *tab) look(width int64, colours string) {
	b.t.Helper()
	prefers := emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: colours},
	})
	b.do("the look", prefers, chromedp.EmulateViewport(width, 900))
}

// members are the names of the members in the table, from above to below.
func (b *tab) members() []string {
	b.t.Helper()
	return value[[]string](b, `[...document.querySelectorAll("#table tbody th")].map((h) => h.firstChild.data)`)
}
