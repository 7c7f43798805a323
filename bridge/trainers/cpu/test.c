/*
 * Tries a trainer library against what p2pdiloco_trainer.h promises, and its backward pass against finite
 * differences:
 *
 *     test LIBRARY FOLDER [slow]
 *
 * LIBRARY is libp2pdiloco_cpu.so or another trainer of this model, FOLDER an empty one to write in. It prints
 * what is wrong and returns 1.
 */
#include "test.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const p2pdiloco_trainer_api *api;
const char *folder;
const char *current = "start";
bool slow;
int failures;

p2pdiloco_trainer *make_trainer(const char *members) {
	char config[4096];
	p2pdiloco_trainer *t = NULL;
	snprintf(config, sizeof config, "{%s%s\"data\":\"%s/text\"}", members, *members ? "," : "", folder);
	if (api->create(config, folder, &t) != P2PDILOCO_TRAINER_OK) {
		printf("%s: create %s: %s\n", current, config, api->last_error(t));
		exit(1);
	}
	return t;
}

void must(p2pdiloco_trainer *t, int32_t code) {
	if (code == P2PDILOCO_TRAINER_OK) return;
	printf("%s: error %d: %s\n", current, (int)code, api->last_error(t));
	exit(1);
}

uint64_t elements(p2pdiloco_trainer *t) {
	const p2pdiloco_trainer_tensor *tensors;
	uint64_t count, total = 0;
	must(t, api->layout(t, &tensors, &count));
	for (uint64_t i = 0; i < count; i++) {
		uint64_t n = 1;
		for (uint32_t k = 0; k < tensors[i].dims; k++) n *= tensors[i].shape[k];
		total += n;
	}
	return total;
}

float *export_all(p2pdiloco_trainer *t) {
	uint64_t d = elements(t);
	float *values = malloc(d * sizeof *values);
	must(t, api->export_params(t, 0, d, values));
	return values;
}

void load_all(p2pdiloco_trainer *t, const float *values) { must(t, api->load(t, 0, elements(t), values)); }

int32_t run_round(p2pdiloco_trainer *t, uint64_t slot, uint64_t steps, p2pdiloco_trainer_stats *stats) {
	static const char *const members[] = {
		"12D3KooWA1bysjrTACSWqf6q172inxvwKHUxAnBtVgaVDKMxpZtx", "12D3KooWFUB4qrAXPa6qJQq7wtHpHtJpmdbfMnzWZFFKh6dgLDTA",
	};
	volatile uint64_t done = 0;
	p2pdiloco_trainer_task task = {
		.size = sizeof task, .slot = slot, .steps = steps, .seed = 7, .rank = 1, .member_count = 2, .members = members, .steps_done = &done, .part = slot, .part_steps = steps,
	};
	stats->size = sizeof *stats;
	int32_t code = api->run(t, &task, stats);
	CHECK(done == stats->steps, "%d of %d", (int)done, (int)stats->steps);
	return code;
}

p2pdiloco_trainer_stats must_run(p2pdiloco_trainer *t, uint64_t slot, uint64_t steps) {
	p2pdiloco_trainer_stats stats = {0};
	must(t, run_round(t, slot, steps, &stats));
	return stats;
}

static void test_entry(void) {
	CHECK(api->size == sizeof *api && api->abi == P2PDILOCO_TRAINER_ABI && api->flags == 0, "size %d, ABI %d", (int)api->size, (int)api->abi);
	CHECK(api->name && *api->name, "no name");
	bool all = api->create && api->last_error && api->layout && api->init && api->load && api->run && api->cancel && api->export_params && api->destroy;
	CHECK(all, "a function is missing");
}

/* A configuration that is refused, and what the reason names. */
struct refusal {
	const char *config, *word;
};

static void test_bad_configurations(void) {
	static const struct refusal cases[] = {
		{"", "line 1, column 1"}, {"[]", "a { was expected"}, {"{\"layers\":1", "the text ends"}, {"{\"layers\":1} x", "column 14"},
		{"{\n \"layerz\": 1}", "line 2, column 2: unknown key \"layerz\""}, {"{\"layers\":0}", "1 to 64"},
		{"{\"layers\":1.5}", "whole number"}, {"{\"layers\":1e1}", "whole number"}, {"{\"layers\":01}", "whole number"},
		{"{\"layers\":99999999999999999999}", "too large"}, {"{\"layers\":\"1\"}", "number"}, {"{\"layers\":1,\"layers\":1}", "twice"},
		{"{\"layers\":1,}", "string"}, {"{\"width\":98}", "multiple"}, {"{\"width\":4096,\"layers\":64}", "parameters"},
		{"{\"batch\":4096,\"context\":4096}", "working memory"}, {"{\"beta1\":1}", "beta1"}, {"{\"beta2\":-0.1}", "beta2"},
		{"{\"learning_rate\":0}", "learning_rate"}, {"{\"epsilon\":2}", "epsilon"}, {"{\"clip\":NaN}", "number"},
		{"{\"clip\":1e999}", "too large"}, {"{\"clip\":.5}", "number"}, {"{\"clip\":1.}", "number"},
		{"{\"weight_decay\":200}", "weight_decay"}, {"{\"hold_out\":1}", "hold_out"}, {"{\"threads\":257}", "threads"},
		{"{\"data\":[]}", "no file"}, {"{\"data\":3}", "string"}, {"{\"data\":\"a\\u0000\"}", "zero"}, {"{\"data\":\"\\ud800\"}", "surrogate"},
		{"{\"data\":\"\\x\"}", "escape"}, {"{\"data\":\"\xff\"}", "UTF-8"}, {"{\"data\":\"a", "ends within"},
		{"{\"data\":\"/nowhere/at/all\"}", "/nowhere/at/all"}, {"{\"data\":\"/dev/null\"}", "neither a file nor a folder"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		p2pdiloco_trainer *t = NULL;
		int32_t code = api->create(cases[i].config, folder, &t);
		const char *why = api->last_error(t);
		CHECK(code == P2PDILOCO_TRAINER_FAILED, "%s", cases[i].config);
		CHECK(strstr(why, cases[i].word), "%s: %s, want %s", cases[i].config, why, cases[i].word);
		CHECK(!strchr(why, '\n'), "%s", why);
		if (t) api->destroy(t);
	}
}

/* Whatever the text is, create says no in one line: its data is nowhere. Sanitizers and valgrind see what else
 * it does. */
static void test_mangled_configurations(void) {
	static const char good[] = "{ \"layers\" : 2, \"beta1\":-1.5e-1 ,\"clip\":0,\n\"data\":[\"/nowhere\\u00e9\\ud83d\\ude00\\n\", \"\xc3\xa9\xf0\x9f\x98\x80\"] }";
	static const char bytes[] = "{}[]\",:\\u0dDeE+-.19 \t\n\x80\xc3\xed\xf0\xff/antfl";
	uint32_t random = 1;
	for (int i = 0; i < (slow ? 300 : 30000); i++) {
		char text[sizeof good];
		memcpy(text, good, sizeof good);
		for (int k = 0; k <= i % 4; k++) {
			random = random * 1664525 + 1013904223;
			text[(random >> 16) % (sizeof good - 1)] = bytes[(random >> 8) % sizeof bytes]; /* a zero ends it */
		}
		p2pdiloco_trainer *t = NULL;
		CHECK(api->create(text, folder, &t) == P2PDILOCO_TRAINER_FAILED && *api->last_error(t) && !strchr(api->last_error(t), '\n'), "%s", text);
		if (t) api->destroy(t);
	}
}

static void test_layout(void) {
	static const char *const names[] = {
		"wte", "wpe", "h.0.ln1.weight", "h.0.ln1.bias", "h.0.attn.qkv.weight", "h.0.attn.qkv.bias", "h.0.attn.proj.weight", "h.0.attn.proj.bias",
		"h.0.ln2.weight", "h.0.ln2.bias", "h.0.mlp.up.weight", "h.0.mlp.up.bias", "h.0.mlp.down.weight", "h.0.mlp.down.bias",
		"lnf.weight", "lnf.bias",
	};
	p2pdiloco_trainer *t = make_trainer("\"held_out\":2");
	const p2pdiloco_trainer_tensor *tensors;
	uint64_t count;
	must(t, api->layout(t, &tensors, &count));
	CHECK(count == 16 && elements(t) == 139680, "%d tensors of %d elements", (int)count, (int)elements(t));
	for (uint64_t i = 0; i < count && i < 16; i++) {
		CHECK(tensors[i].size >= sizeof *tensors && tensors[i].dtype >= P2PDILOCO_F32 && strcmp(tensors[i].name, names[i]) == 0, "%s", tensors[i].name);
	}
	CHECK(tensors[4].dims == 2 && tensors[4].shape[0] == 288 && tensors[4].shape[1] == 96, "%s", tensors[4].name);
	api->destroy(t);
}

/* The initial bits are the built-in trainer's, which its own tests hold fixed. */
static void test_initial_bits(void) {
	p2pdiloco_trainer *t = make_trainer("\"width\":16,\"heads\":2,\"context\":16,\"held_out\":2");
	uint64_t d = elements(t);
	float *values = malloc(d * sizeof *values), *again = malloc(d * sizeof *again);
	must(t, api->init(t, 1, values));
	must(t, api->init(t, 1, again));
	CHECK(memcmp(values, again, d * sizeof *values) == 0, "asked again, init differs");
	static const uint32_t want[] = {0x3e7c7100, 0x3e028a00, 0xbc0f78d2};
	const size_t down = (256 + 16) * 16 + 2 * 16 + 3 * 16 * 16 + 3 * 16 + 16 * 16 + 16 + 2 * 16 + 4 * 16 * 16 + 4 * 16;
	const float got[] = {values[0], values[1], values[down + 7]};
	CHECK(memcmp(got, want, sizeof want) == 0, "%g %g %g", (double)got[0], (double)got[1], (double)got[2]);
	must(t, api->init(t, 2, again));
	CHECK(memcmp(values, again, d * sizeof *values) != 0, "another seed gives the same parameters");
	free(values);
	free(again);
	api->destroy(t);
}

static void test_ranges(void) {
	p2pdiloco_trainer *t = make_trainer(SMALL);
	uint64_t d = elements(t), cut = d / 3;
	float *values = malloc(d * sizeof *values), *got = malloc(d * sizeof *got);
	for (uint64_t i = 0; i < d; i++) values[i] = (float)i / 1024;
	must(t, api->load(t, cut, d - cut, values + cut));
	must(t, api->load(t, 0, cut, values));
	must(t, api->load(t, d, 0, values));
	for (uint64_t at = 0, n; at < d; at += n) {
		n = d - at < 1000 ? d - at : 1000;
		must(t, api->export_params(t, at, n, got + at));
	}
	CHECK(memcmp(values, got, d * sizeof *got) == 0, "what was loaded does not come back");
	if (api->export_gradient) {
		must(t, api->export_gradient(t, 5, d - 5, got));
		for (uint64_t i = 0; i < d - 5; i++) CHECK(got[i] == 0, "element %d is %g", (int)i, (double)got[i]);
	}
	CHECK(api->load(t, d - 1, 2, values) == P2PDILOCO_TRAINER_FAILED && *api->last_error(t), "a range beyond the end");
	CHECK(api->export_params(t, UINT64_MAX, 2, got) == P2PDILOCO_TRAINER_FAILED && strstr(api->last_error(t), "model sizes"), "%s", api->last_error(t));
	free(values);
	free(got);
	api->destroy(t);
}

/* Makes text with something to learn, in files enough for both parts. */
static void write_corpus(void) {
	static const char *const words[] = {"the ", "peer ", "trains ", "a ", "model ", "and ", "sends ", "its ", "gradient.\n"};
	char path[4096];
	uint32_t random = 1;
	snprintf(path, sizeof path, "%s/text", folder);
	mkdir(path, 0755);
	for (int i = 0; i < 40; i++) {
		snprintf(path, sizeof path, "%s/text/%d.txt", folder, i);
		FILE *f = fopen(path, "w");
		if (!f) {
			perror(path);
			exit(1);
		}
		for (int k = 0; k < 200; k++) {
			random = random * 1664525 + 1013904223;
			fputs(words[(random >> 16) % 9], f);
		}
		fclose(f);
	}
}

static void run_test(const char *name, void (*test)(void)) {
	int before = failures;
	current = name;
	test();
	printf("%s %s\n", failures == before ? "ok" : "FAILED", name);
	fflush(stdout);
}

int main(int argc, char **argv) {
	if (argc < 3) {
		printf("usage: test LIBRARY FOLDER [slow]\n");
		return 2;
	}
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		printf("%s\n", dlerror());
		return 2;
	}
	const p2pdiloco_trainer_api *(*entry)(uint32_t);
	*(void **)&entry = dlsym(library, "p2pdiloco_trainer_entry"); /* as POSIX writes it */
	if (!entry || entry(0) || !(api = entry(P2PDILOCO_TRAINER_ABI))) {
		printf("%s: no entry, or one that serves any ABI\n", argv[1]);
		return 1;
	}
	folder = argv[2];
	slow = argc > 3;
	write_corpus();
	run_test("entry", test_entry);
	run_test("bad configurations", test_bad_configurations);
	run_test("mangled configurations", test_mangled_configurations);
	run_test("layout", test_layout);
	run_test("initial bits", test_initial_bits);
	run_test("ranges", test_ranges);
	run_test("gradients", test_gradients);
	run_test("training", test_training);
	run_test("threads", test_threads);
	run_test("cancel", test_cancel);
	run_test("save and restore", test_save);
	run_test("divergence", test_divergence);
	dlclose(library);
	return failures > 0;
}
