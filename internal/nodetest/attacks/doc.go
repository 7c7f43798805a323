// Package attacks measures what attacks cost a run: whole nodes in virtual time train the built-in
// model, an honest run in each seed and each attack beside it. TestTable prints the table that
// docs/why/trust.md has. By default it tries one attack at tiny sizes; with flags, more:
//
//	go test ./internal/nodetest/attacks -run TestTable -timeout 2h -v -args -attacks all -bad 1,2
//
// What is hostile is in test files: no program has it.
package attacks
