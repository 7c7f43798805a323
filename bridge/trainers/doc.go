// Package trainers has the reference trainers that are shared libraries, written in C and CUDA
// behind the trainer ABI (bridge/include/p2pdiloco_trainer.h), and the tests that hold them to the
// built-in trainer, tensor by tensor. There is no Go code but tests: README.md says how to build
// and use a library.
package trainers
