// Package house has only tests: they hold the source to rules that no linter checks. Comments have
// at most 100 columns (code and diagrams in them 120), files at most 400 lines, functions at most
// 60, and the root package at most 12 files (CONTRIBUTING.md). A comment of a function or type that
// begins with a name begins with its own. Pages name tests that exist, and commands that run some.
// docs/why/promises.md has each promise with tests, and with mutants that still apply.
// Parts of the project have budgets of tokens (budgets_test.go).
package house
