package p2pdiloco

import (
	"context"
	"log/slog"

	"github.com/p2pdiloco/p2pdiloco/internal/node/modelfile"
)

// ExportConfig says which state Export writes, and where.
type ExportConfig struct {
	DataDir string  // of a peer, which may be running
	Out     string  // the .safetensors file to make
	Slot    *uint64 // nil: the newest that is on disk
	// add the outer optimizer's vectors, under the names of the parameters with
	// "p2pdiloco.outer.N." in front
	Momentum bool
	Force    bool         // replace Out
	Logger   *slog.Logger // silent when nil
}

// Exported says what Export has written.
type Exported = modelfile.Exported

// Export writes a peer's model to a .safetensors file: the newest checkpoint that a record
// certifies, brought up to the wanted slot by the outcomes that follow it on disk, each state held
// against its certified root. It changes nothing in the data directory.
func Export(ctx context.Context, cfg ExportConfig) (Exported, error) {
	return modelfile.Export(ctx, modelfile.ExportConfig(cfg))
}
