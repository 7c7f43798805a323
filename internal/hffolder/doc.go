// Package hffolder reads and writes models as Hugging Face folders, the form in which the
// transformers library keeps them.
//
// A folder holds config.json (what model it is) and the weights: one model.safetensors, or several
// files model-00001-of-0000N.safetensors with model.safetensors.index.json, which names the file of
// each tensor. A matrix that the model uses in two places (tie_word_embeddings: the embedding and
// the output layer) stands there once or twice; a run's layout has it once.
//
// Open checks a folder as a whole. Match and Read serve a layout as those of safetensors.File do.
// Write makes a folder from a model of a run and the config.json of the folder that it began with.
package hffolder
