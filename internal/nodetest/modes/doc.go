// Package modes tests that each mode computes what its equations say, and that trainers do not wait
// where the mode promises that.
package modes
