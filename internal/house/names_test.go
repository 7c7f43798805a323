package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// name is what can only be the name of a function or type at the beginning of a comment: a sentence
// begins with a capital, and few other words than names have one inside. These few begin comments
// of tests, which need not begin with a name.
var name = regexp.MustCompile(`^([a-z][A-Za-z0-9]*|[A-Z][A-Za-z0-9]*[a-z0-9][A-Z][A-Za-z0-9]*)\b`)

// checkNames finds comments that begin with the name of something else than what they stand above:
// it was called so once, and is looked for in vain. A comment that begins with another sentence
// passes.
func checkNames(t testing.TB, file string, files *token.FileSet, f *ast.File) {
	t.Helper()
	check := func(doc *ast.CommentGroup, declared string) {
		if doc == nil {
			return
		}
		first := name.FindString(doc.Text())
		if first == "" || first == declared || strings.HasPrefix(declared, "Test") && token.IsExported(first) {
			return
		}
		t.Errorf("%s:%d: the comment of %s begins with %s", file, files.Position(doc.Pos()).Line, declared, first)
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			check(d.Doc, d.Name.Name)
		case *ast.GenDecl:
			if d.Tok != token.TYPE {
				continue
			}
			for _, spec := range d.Specs {
				s := spec.(*ast.TypeSpec)
				if s.Doc == nil && len(d.Specs) == 1 {
					s.Doc = d.Doc
				}
				check(s.Doc, s.Name.Name)
			}
		}
	}
}

// The rule finds what it is for, and nothing else.
func TestOutdatedNamesAreFound(t *testing.T) {
	for text, wrong := range map[string]bool{
		"// heard says whether.\nfunc heard() {}":                      false,
		"// quorumHeard says whether.\nfunc heard() {}":                true,
		"// repeats it.\nfunc (ev *evidence) repeat() {}":              true,
		"// RunLoop does it.\nfunc Loop() {}":                          true,
		"// QUIC is quick, and NATs are not.\nfunc way() {}":           false,
		"// OpenMPI is not needed.\nfunc TestAgainstMPI() {}":          false,
		"// pip installs it.\nfunc TestPip() {}":                       true,
		"// voices are many.\ntype voice struct{}":                     true,
		"// These are two.\ntype (\n\t// a is one.\n\ta int\n)":        false,
		"type (\n\t// b is one.\n\ta int\n)":                           true,
		"//go:noinline\nfunc f() {}":                                   false,
		"func bare() {}\n\n// left to itself\n\nvar x, y = 1, \"two\"": false,
	} {
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, "x.go", "package x\n\n"+text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		inner := &counter{TB: t}
		checkNames(inner, "x.go", files, f)
		if inner.errors > 0 != wrong {
			t.Errorf("%q: %d errors", text, inner.errors)
		}
	}
}

// counter is a test that counts its errors.
type counter struct {
	testing.TB
	errors int
}

// Errorf counts an error.
func (c *counter) Errorf(string, ...any) { c.errors++ }
