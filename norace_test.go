//go:build !race

package p2pdiloco

const raced = false
