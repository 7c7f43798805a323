package cli

// whichRun is what says which run a peer joins.
var whichRun = HelpGroup{Title: "The run", Lines: [][2]string{
	{"TICKET", "from p2pdiloco invite: itself, @FILE, or - for standard input; then nothing else is needed"},
	{"--run name", "or its name: peers on one network find each other by it"},
	{"--bootstrap addr", "a bootstrap node or any peer of it, over the internet"},
}}

// often are the flags that most people need, of join and start.
var often = []HelpGroup{
	{Title: "Training", Lines: [][2]string{
		{"-- COMMAND", "your training script, as in: -- torchrun --nproc_per_node 8 train.py"},
		{"--data path", "or a text file or folder for the built-in model; --model has its sizes"},
		{"--trainer path", "or a shared library; none: vote and serve only"},
	}},
	{Title: "A new run", Lines: [][2]string{
		{"--rounds n", "rounds (100) of --inner-steps n (500)"},
		{"--mode mode", "sync, delayed, eager, streaming or async (sync)"},
		{"--codec codec", "bits on the wire: f32, bf16, int8, int4, sign or topk (f32)"},
		{"--access access", "open, or private: with tickets alone (open)"},
		{"--preset preset", "lan or wan (wan)"},
	}},
	{Title: "This machine", Lines: [][2]string{
		{"--data-dir dir", "identity, votes and checkpoints: started with it again, it is the same peer"},
		{"--max-upload rate", "as in 20mbit; --max-download"},
	}},
}
