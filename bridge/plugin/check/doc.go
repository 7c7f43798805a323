// Package check tries a trainer library against what bridge/include/p2pdiloco_trainer.h asks of it, and compares two libraries
// tensor by tensor. `p2pdiloco trainer-check` is its command.
//
// Each check is a function of its own here, named in the report as its line is (checks.go, rounds.go); compare.go compares. A check
// that fails ends nothing but itself, except where the trainer fails altogether.
package check
