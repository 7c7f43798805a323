package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	root         = "../.."
	commentWidth = 100 // columns, with tab
	codeWidth    = 120 // the same for code and diagrams in comments
	tab          = 4   // columns
	fileLines    = 400
	funcLines    = 60
	rootFiles    = 12
)

func TestSourceKeepsToTheHouse(t *testing.T) {
	inRoot := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (d.Name() == "testdata" || d.Name() == "build" || d.Name()[0] == '.'):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go"):
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		isTest := strings.HasSuffix(path, "_test.go")
		if !isTest && filepath.Dir(name) == "." {
			inRoot++
		}
		return checkFile(t, path, name, isTest)
	})
	if err != nil {
		t.Fatal(err)
	}
	if inRoot > rootFiles {
		t.Errorf("the root package has %d files besides tests: at most %d", inRoot, rootFiles)
	}
}

func checkFile(t *testing.T, path, name string, isTest bool) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(string(src), "\n")
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, src, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, group := range f.Comments {
		for _, c := range group.List {
			checkComment(t, name, lines, files.Position(c.Pos()).Line, files.Position(c.End()).Line)
		}
	}
	checkNames(t, name, files, f)
	if isTest {
		return nil
	}
	if n := len(lines) - 1; n > fileLines {
		t.Errorf("%s has %d lines: at most %d", name, n, fileLines)
	}
	for _, decl := range f.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			if n := files.Position(fn.End()).Line - files.Position(fn.Pos()).Line + 1; n > funcLines {
				t.Errorf("%s: function %s has %d lines: at most %d", name, fn.Name.Name, n, funcLines)
			}
		}
	}
	return nil
}

// checkComment looks at a comment's lines. A directive, a link and C code before import "C" are as
// long as they have to be.
func checkComment(t *testing.T, name string, lines []string, first, last int) {
	for n := first; n <= last; n++ {
		line := lines[n-1]
		text := strings.TrimSpace(line)
		if strings.Contains(line, "//go:") || strings.Contains(line, "//nolint") || strings.Contains(line, "://") {
			continue
		}
		if !strings.HasPrefix(text, "//") && n == first && withoutComment(line) > commentWidth {
			continue // the code alone is wider: the linter's affair
		}
		most := commentWidth
		if strings.HasPrefix(text, "//\t") {
			most = codeWidth
		}
		if w := width(line); w > most {
			t.Errorf("%s:%d: comment of %d columns: at most %d", name, n, w, most)
		}
	}
}

// withoutComment is the width of a line without the comment at its end.
func withoutComment(line string) int {
	if code, _, ok := strings.Cut(line, " //"); ok {
		return width(strings.TrimRight(code, " \t"))
	}
	return 0
}

func width(line string) int {
	return utf8.RuneCountInString(line) + (tab-1)*strings.Count(line, "\t")
}
