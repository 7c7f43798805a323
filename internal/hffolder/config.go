package hffolder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
)

// Config is a config.json, and the fields of it that matter here.
type Config struct {
	Text      []byte // the file
	ModelType string // "gpt2", "llama", …; "" where the file does not say
	Tied      *bool  // tie_word_embeddings, nil where the file does not say
	DType     string // torch_dtype, in newer releases dtype: "float32", …; "" where it does not say
}

// names are transformers' names of the dtypes.
var names = map[safetensors.DType]string{
	safetensors.F32: "float32", safetensors.BF16: "bfloat16", safetensors.F16: "float16",
}

func readConfig(dir string) (c Config, err error) {
	c.Text, err = disk.Read(disk.OS, filepath.Join(dir, configName), maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("it holds no %s, which says what model it is: name the folder that save_pretrained() "+
			"wrote", configName)
	}
	if err != nil {
		return c, err
	}
	var fields struct {
		ModelType  string `json:"model_type"`
		Tied       *bool  `json:"tie_word_embeddings"`
		TorchDType any    `json:"torch_dtype"`
		DType      any    `json:"dtype"`
	}
	if err := json.Unmarshal(c.Text, &fields); err != nil {
		return c, fmt.Errorf("%s: %w", configName, err)
	}
	c.ModelType, c.Tied = fields.ModelType, fields.Tied
	for _, d := range []any{fields.TorchDType, fields.DType} {
		if name, ok := d.(string); ok {
			c.DType = name
		}
	}
	return c, nil
}

// tensors is the dtype that the file names, F32 where it names none that is written here.
func (c Config) tensors() safetensors.DType {
	for d, name := range names {
		if name == c.DType {
			return d
		}
	}
	return safetensors.F32
}

// with is the file's text with another dtype, where it names one; all else stays as it is.
func (c Config) with(d safetensors.DType) ([]byte, error) {
	if c.DType == "" || c.DType == names[d] {
		return c.Text, nil
	}
	dec := json.NewDecoder(bytes.NewReader(c.Text))
	if _, err := dec.Token(); err != nil { // '{'
		return nil, err
	}
	text, moved := slices.Clone(c.Text), 0
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		if (key == "torch_dtype" || key == "dtype") && value[0] == '"' {
			end := int(dec.InputOffset()) + moved
			text = slices.Replace(text, end-len(value), end, fmt.Appendf(nil, "%q", names[d])...)
			moved = len(text) - len(c.Text)
		}
	}
	return text, nil
}
