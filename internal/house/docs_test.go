package house

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z0-9]\w*)\(`)
	// a test that a page names, * for any end, and the package that it says
	namedTest = regexp.MustCompile(`\b(Test|Fuzz|Benchmark)([A-Z]\w*)(\*?)(?: \((root|[a-z][a-z0-9/]+)\))?`)
	command   = regexp.MustCompile("go test\\s(?:[^`#\n]|\n[^\n])*")
	selection = regexp.MustCompile(`-(run|bench)[ =]'?([^ ']+)'?`)
	folder    = regexp.MustCompile(`\s\./?(\S*)`)
)

// namesNot are words of pages that look like the names of tests.
var namesNot = map[string]bool{"TestNet": true}

// Whoever reads the pages finds the tests that they name, in the package that they say, and the
// commands that they show run some: go test says nothing where a pattern matches none.
func TestPagesNameTestsThatExist(t *testing.T) {
	tests := testsByPackage(t)
	walk(t, ".md", func(name, text string) {
		for _, wrong := range wrongTests(tests, text) {
			t.Errorf("%s: %s", name, wrong)
		}
	})
}

func TestWrongTestsAreFound(t *testing.T) {
	tests := map[string][]string{".": {"TestRoot"}, "a": {"TestIt", "BenchmarkIt"}, "a/b": {"FuzzIt"}}
	for text, wrong := range map[string]bool{
		"TestIt, FuzzIt and TestRo*":                         false,
		"TestIt (a), and TestIt (in short), TestRoot (root)": false,
		"TestGone":                                         true,
		"TestGo*":                                          true,
		"TestIt (a/b)":                                     true,
		"TestIt (root)":                                    true,
		"`go test ./a -run It -count 1`":                   false,
		"`go test -run xxx -bench It\n./a`":                false,
		"`go test ./... -run 'TestIt|Gone'`":               false,
		"`go test -fuzz FuzzIt ./a/b`":                     false,
		"`go test ./a -run xxx -bench .`":                  false,
		"`go test\n./a -run Gone`":                         true,
		"    go test ./a -run It # not Gone\n\n -run Gone": false,
		"`go test -run 'Gone/x|TestIt/it' ./a/...`":        false,
		"`go test . -run TestRoot`":                        false,
		"`go test ./a/b -run It`":                          false,
		"`go test ./a/b -run TestIt`":                      true,
		"`go test -run xxx -bench It -benchtime 30x .`":    true,
		"`P2PDILOCO_TEST=nightly go test ./a -run Gone`":   true,
	} {
		if got := wrongTests(tests, text); (len(got) > 0) != wrong {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// wrongTests says what a page has wrong about tests, which are given by their package's folder.
func wrongTests(tests map[string][]string, text string) (wrong []string) {
	for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
		name, open, in := m[1]+m[2], m[3] != "", m[4]
		pkg := strings.TrimPrefix(in, "root")
		if _, is := tests[path.Clean(pkg)]; in == "" || !is {
			pkg = "..." // what stands in parentheses is something else
		} else if pkg == "" {
			pkg = "."
		}
		meant := func(f string) bool { return f == name || open && strings.HasPrefix(f, name) }
		if !namesNot[name] && !matches(tests, pkg, meant) {
			wrong = append(wrong, "no "+m[0])
		}
	}
	for _, c := range command.FindAllString(text, -1) {
		c = strings.ReplaceAll(c, "\n", " ")
		in := folder.FindStringSubmatch(selection.ReplaceAllString(c, "") + " .")
		for _, m := range selection.FindAllStringSubmatch(c, -1) {
			if m[2] != "xxx" && m[2] != "NAME" && !matches(tests, path.Clean(in[1]), selects(m[1], m[2])) {
				wrong = append(wrong, "runs nothing: "+c)
			}
		}
	}
	return wrong
}

// selects returns what -run or -bench selects by a pattern, of whose parts each is for a test and,
// behind a slash, for parts of it.
func selects(kind, pattern string) func(name string) bool {
	return func(name string) bool {
		if strings.HasPrefix(name, "Benchmark") != (kind == "bench") {
			return false
		}
		for part := range strings.SplitSeq(pattern, "|") {
			part, _, _ = strings.Cut(part, "/")
			if is, err := regexp.MatchString(part, name); is && err == nil {
				return true
			}
		}
		return false
	}
}

// matches says whether a test of a package, or with ... below it, is meant.
func matches(tests map[string][]string, pkg string, meant func(string) bool) bool {
	below, all := strings.CutSuffix(pkg, "...")
	for folder, names := range tests {
		if folder != pkg && !(all && strings.HasPrefix(folder+"/", below)) {
			continue
		}
		if slices.ContainsFunc(names, meant) {
			return true
		}
	}
	return false
}

func testsByPackage(t *testing.T) map[string][]string {
	tests := map[string][]string{}
	walk(t, "_test.go", func(name, text string) {
		in := path.Dir(name)
		for _, m := range testFunc.FindAllStringSubmatch(text, -1) {
			tests[in] = append(tests[in], m[1])
		}
	})
	return tests
}

// walk reads the files of the repository whose names end in a way.
func walk(t *testing.T, suffix string, read func(name, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && (d.Name() == "testdata" || d.Name() == "build" || d.Name()[0] == '.'):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, suffix):
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		read(filepath.ToSlash(name), string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
