// Package trainers has a trainer for GPUs: cuda/train.cu, one CUDA file behind the trainer ABI
// (bridge/include/p2pdiloco_trainer.h), and the tests that hold it to the built-in trainer, tensor
// by tensor. They run it without a GPU, in an emulation of CUDA (cuda/emulate). There is no Go code
// but tests: README.md says how to build and use the library.
package trainers
