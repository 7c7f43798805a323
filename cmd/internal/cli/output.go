package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// Progress is where a command writes what is for people: stdout, or stderr where stdout is for a
// JSON document.
func Progress(cmd *cobra.Command, asJSON bool) io.Writer {
	if asJSON {
		return cmd.ErrOrStderr()
	}
	return cmd.OutOrStdout()
}

// PrintJSON writes one indented document.
func PrintJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// OpenDir opens the folder that --keep-dir names, or makes a temporary one if keep is empty. remove
// removes a temporary one only.
func OpenDir(keep, prefix string) (dir string, remove func() error, err error) {
	if keep == "" {
		dir, err = os.MkdirTemp("", prefix)
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	if dir, err = filepath.Abs(keep); err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, fmt.Errorf("--keep-dir: %w", err)
	}
	return dir, func() error { return nil }, nil
}

// ReadText is the text of the file that a flag names; empty without one.
func ReadText(flag, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", UsageError(sources.Faultf(flag, path, "%v", err))
	}
	return string(b), nil
}

// Quote makes a word of a path in a command line that people copy.
func Quote(path string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./+,:@%", r)
	}
	if path != "" && strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
