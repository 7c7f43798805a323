// Package sources fills flags that a command line left out: from the environment and from a config
// file.
//
// A caller registers its flags in a pflag.FlagSet, parses the command line if there is one, and
// calls Fill with the sources in the order in which they win. Fill sets each flag that was not
// given to what the first source says that knows it, through the flag's own parser, and notes in
// the flag where the value came from. Later errors about a value are a Fault, which Explain puts in
// the words of that source:
//
//	--rounds 0: allowed: 1 to 4294967295
//	P2PDILOCO_ROUNDS=0: allowed: 1 to 4294967295
//	run.toml: rounds = 0: allowed: 1 to 4294967295
//
// A flag --inner-steps is the variable P2PDILOCO_INNER_STEPS and the key inner_steps. A variable
// that is empty counts as not set. Files are flat, and every key in them
// must be the name of a flag: of the set, or of another command that reads the same file.
package sources
