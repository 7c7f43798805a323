package house

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	promises   = map[byte]int{'A': 9, 'B': 11, 'C': 8, 'D': 14, 'E': 7, 'F': 3} // rows by letter
	promiseRow = regexp.MustCompile(`(?m)^\| ([A-F]\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)
	pythonTest = regexp.MustCompile(`\b(test_\w+)\.(\w+)\.(test_\w+)`)
	parsing    = regexp.MustCompile(`(?m)^func (?:[pP]arse|Read)\w*\((?:\w+ string, )?\w+ \[\]byte[,)]`)
	mutantOf   = regexp.MustCompile(`[A-F]\d+[a-z]?`)
)

const (
	mutants  = "testdata/mutants/"
	inPython = "bridge/python/tests"
)

// The index, docs/why/promises.md, has a row for each promise: with tests and mutants, or in words
// why there are none.
func TestPromisesHaveTestsAndMutants(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/why/promises.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows, named []string
	for _, m := range promiseRow.FindAllStringSubmatch(string(page), -1) {
		row, tests, broken := m[1], m[3], mutantOf.FindAllString(m[4], -1)
		rows, named = append(rows, row), append(named, broken...)
		tested := namedTest.MatchString(tests) || pythonTest.MatchString(tests)
		if kept := m[4] != "–"; kept != (len(broken) > 0) || kept && !tested {
			t.Errorf("%s has neither tests with mutants, nor a reason and –", row)
		}
		for _, test := range pythonTest.FindAllString(tests, -1) {
			if !isPythonTest(test) {
				t.Errorf("%s: no %s", row, test)
			}
		}
		for _, mutant := range broken {
			if strings.TrimRight(mutant, "abcdefgh") != row {
				t.Errorf("%s names a mutant of another row: %s", row, mutant)
			}
		}
	}
	for letter, most := range promises {
		for n := 1; n <= most; n++ {
			if row := fmt.Sprintf("%c%d", letter, n); !slices.Contains(rows, row) {
				t.Errorf("docs/why/promises.md has no row %s", row)
			}
		}
	}
	for _, file := range mutantFiles(t) {
		if name := strings.TrimSuffix(filepath.Base(file), ".patch"); !slices.Contains(named, name) {
			t.Errorf("docs/why/promises.md does not name %s", file)
		} else {
			named = slices.DeleteFunc(named, func(s string) bool { return s == name })
		}
	}
	if len(named) > 0 {
		t.Errorf("there is no %s", mutants+strings.Join(named, ".patch, "+mutants)+".patch")
	}
}

// Each mutant applies, and its first line names tests that exist: a package and what -run selects.
func TestMutantsApply(t *testing.T) {
	tests := testsByPackage(t)
	for _, file := range mutantFiles(t) {
		patch, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := bytes.Cut(patch, []byte("\n"))
		words := strings.Fields(string(first))
		if len(words) != 2 || !matches(tests, path.Clean(words[0]), selects("run", words[1])) &&
			!(words[0] == inPython && isPythonTest(words[1])) {
			t.Errorf("the first line of %s names no package and test: %s", file, first)
		}
		apply := exec.Command("git", "apply", "--check", "internal/house/"+file)
		apply.Dir = root
		if out, err := apply.CombinedOutput(); err != nil {
			t.Errorf("%s does not apply: %v\n%s", file, err, out)
		}
	}
}

// isPythonTest says whether there is a test FILE.CLASS.METHOD.
func isPythonTest(name string) bool {
	m := pythonTest.FindStringSubmatch(name)
	if m == nil {
		return false
	}
	text, err := os.ReadFile(filepath.Join(root, inPython, m[1]+".py"))
	_, class, is := bytes.Cut(text, []byte("\nclass "+m[2]+"("))
	return err == nil && is && bytes.Contains(class, []byte("    def "+m[3]+"(self"))
}

func mutantFiles(t *testing.T) []string {
	files, err := filepath.Glob(mutants + "*.patch")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no mutants", err)
	}
	return files
}

// Whatever reads bytes that others wrote has a fuzz target in its package.
func TestParsersHaveFuzzTargets(t *testing.T) {
	parses := map[string]bool{}
	walk(t, ".go", func(name, text string) {
		reads := !strings.HasSuffix(name, "_test.go") && parsing.MatchString(text)
		if path.Dir(name) != "." && reads { // the root hands on to spec
			parses[path.Dir(name)] = true
		}
	})
	if len(parses) < 15 {
		t.Errorf("only %d packages parse: the pattern finds too few", len(parses))
	}
	tests := testsByPackage(t)
	for folder := range parses {
		if !slices.ContainsFunc(tests[folder], func(f string) bool { return strings.HasPrefix(f, "Fuzz") }) {
			t.Errorf("%s parses bytes, and no test of it begins with Fuzz", folder)
		}
	}
}
