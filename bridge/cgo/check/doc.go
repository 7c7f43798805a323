// Package check tests a trainer library against bridge/include/p2pdiloco_trainer.h, and compares
// two libraries tensor by tensor. `p2pdiloco trainer-check` is its command.
//
// Each check is a function here, with the name of its line in the report (checks.go, rounds.go);
// compare.go compares. The other checks go on after one fails, unless the trainer itself has
// failed.
package check
