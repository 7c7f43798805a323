package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// cell is what one row gave in one seed.
type cell struct {
	Flags string `json:"flags"` // of Config: cells of others are left alone
	Row   string `json:"row"`
	Seed  uint64 `json:"seed"`
	result
}

// result is what was measured of it.
type result struct {
	Figures map[string]float64 `json:"figures"` // by their units
	Curve   []point            `json:"curve,omitempty"`
}

func (c cell) is(row string, seed uint64) bool { return c.Row == row && c.Seed == seed }

// cellUnits of a cell's figures, as they are printed.
const cellUnits = "loss sec/op payload-B control-B sent-B peak-B stall-% step-x-pace"

// cells is the path of a file that has a line of JSON for each cell.
func (c ModesConfig) cells() string { return filepath.Join(c.Dir, "cells.jsonl") }

// readCells reads the cells that were measured with these flags. A line that is not whole is what
// was being written as a program was stopped.
func readCells(path, flags string) (cells []cell, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range bytes.Lines(b) {
		var c cell
		if json.Unmarshal(line, &c) == nil && c.Flags == flags {
			cells = append(cells, c)
		}
	}
	return cells, err
}

// keep appends the cell, on a line of its own whatever the file ends with.
func (c cell) keep(path string) error {
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append([]byte("\n"), line...))
	return errors.Join(err, f.Sync(), f.Close())
}
