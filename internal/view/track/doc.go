// Package track tells trackers what a peer measures, while it runs: it follows the peer's
// metrics.jsonl, and writes each slot to an event file of TensorBoard, or its line to another file.
package track
