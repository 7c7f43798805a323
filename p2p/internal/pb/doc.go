// Package pb holds the generated wire types of the hello protocol. It needs protoc (Debian:
// protobuf-compiler) and protoc-gen-go of the version in go.mod on the PATH to be made again.
package pb

//go:generate protoc --go_out=. --go_opt=paths=source_relative hello.proto
