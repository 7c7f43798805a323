package house

import (
	"go/scanner"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// budget is a number of tokens for the files below some folders, all where none is named, but for
// those below others.
type budget struct {
	most        int
	in, without []string
}

func (b budget) counts(file string) bool {
	below := func(folder string) bool { return strings.HasPrefix(file, folder+"/") }
	return (len(b.in) == 0 || slices.ContainsFunc(b.in, below)) && !slices.ContainsFunc(b.without, below)
}

// The number of things stays what somebody can carry.
func TestBudgets(t *testing.T) {
	spent, tokens, words, pages := make([]int, len(budgets)), 0, 0, 0
	walk(t, ".go", func(name, text string) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		n, w := count(text)
		tokens, words = tokens+n, words+w
		for i, b := range budgets {
			if b.counts(name) {
				spent[i] += n
			}
		}
	})
	walk(t, ".md", func(_, text string) { pages += len(text) })
	for i, b := range budgets {
		t.Logf("%v without %v: %d tokens of %d", b.in, b.without, spent[i], b.most)
		if spent[i] > b.most {
			t.Errorf("%v without %v has %d tokens: at most %d", b.in, b.without, spent[i], b.most)
		}
	}
	t.Logf("pages: %d bytes of %d; comments: %d words, %d tokens", pages, pageBytes, words, tokens)
	if pages > pageBytes {
		t.Errorf("all pages have %d bytes: at most %d", pages, pageBytes)
	}
	if words*1000 < tokens*commentWords {
		t.Errorf("%d words of comments for %d tokens: at least %d for each 1000", words, tokens, commentWords)
	}
}

// count returns the tokens of a Go file, and the words of its comments.
func count(text string) (tokens, words int) {
	files := token.NewFileSet()
	var s scanner.Scanner
	s.Init(files.AddFile("", -1, len(text)), []byte(text), nil, scanner.ScanComments)
	for {
		switch _, tok, literal := s.Scan(); {
		case tok == token.EOF:
			return tokens, words
		case tok == token.COMMENT:
			words += len(strings.Fields(literal))
		case tok != token.SEMICOLON || literal != "\n": // those at ends of lines are not typed
			tokens++
		}
	}
}

func TestCount(t *testing.T) {
	tokens, words := count("//go:build x\n\n// A sum.\npackage x /* y */\n\nvar a = 1; var b = \"2 3\"\n")
	if tokens != 11 || words != 8 {
		t.Errorf("%d tokens, %d words", tokens, words)
	}
	b := budget{in: []string{"a", "b"}, without: []string{"a/x"}}
	for file, want := range map[string]bool{"a/f.go": true, "b/c/f.go": true, "a/x/f.go": false, "ab/f.go": false} {
		if b.counts(file) != want {
			t.Errorf("%s counts: %v", file, !want)
		}
	}
}
