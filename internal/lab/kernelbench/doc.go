// Package kernelbench measures the arithmetic of package internal/kernel, codecs and hashes, on one
// core: bytes read and written a second, with the processor's vector instructions and as plain Go,
// beside a copy of as many bytes.
//
//  1. Build the cases: each a kernel, its vectors, and the bytes that it reads and writes.
//  2. Find how often each must run for a sample of a few milliseconds.
//  3. Round by round, sample the copy, the fast path and the plain loop of every case in turn, so
//     that what else the machine does meets all of them alike.
//  4. Report medians and their ratios.
package kernelbench
