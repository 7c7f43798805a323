/*
 * Times a trainer library through the trainer ABI, on the GPU, and prints a JSON object:
 *
 *     cuda_bench LIBRARY CONFIG ROUNDS STEPS
 *
 * CONFIG is the text of --trainer-config. The time of a step is that of whole rounds, ROUNDS of STEPS steps
 * after one to warm up, in which the host draws and copies its batches. Copies go to and from memory like that
 * of a peer, page-locked by the trainer, and are asked for in the ranges in which p2pdiloco asks; beside them
 * stand cudaMemcpyAsync's own, of the same bytes between plain page-locked memory and the device, tried in turn
 * with them.
 */
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "device.h"
#include "p2pdiloco_trainer.h"

static constexpr uint64_t range = 4 << 20; /* elements that the peer asks for at once */
static constexpr int tries = 9;

static double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Bench {
	const p2pdiloco_trainer_api *api = nullptr;
	p2pdiloco_trainer *trainer = nullptr;
	uint64_t elements = 0;
	float *shared = nullptr; /* two vectors, as the peer has them */

	size_t bytes() const { return elements * sizeof(float); }

	void must(int32_t code, const char *call) const {
		if (code != P2PDILOCO_TRAINER_OK)
			throw Failure(std::string(call) + ": " + api->last_error(trainer));
	}
	void open(const char *library, const char *config);
	p2pdiloco_trainer_stats run(uint64_t slot, uint64_t steps) const;
	void in_ranges(const std::function<void(uint64_t begin, uint64_t count)> &) const;
};

void Bench::open(const char *library, const char *config) {
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	auto *entry = handle ? (const p2pdiloco_trainer_api *(*)(uint32_t))dlsym(handle, "p2pdiloco_trainer_entry") : nullptr;
	if (!entry || !(api = entry(P2PDILOCO_TRAINER_ABI)))
		throw Failure(std::string(library) + ": no trainer of this ABI");
	must(api->create(config, "/tmp", &trainer), "create");
	const p2pdiloco_trainer_tensor *tensors;
	uint64_t count;
	must(api->layout(trainer, &tensors, &count), "layout");
	for (uint64_t i = 0; i < count; i++) {
		uint64_t n = 1;
		for (uint32_t k = 0; k < tensors[i].dims; k++)
			n *= tensors[i].shape[k];
		elements += n;
	}
	int file = memfd_create("bench", 0);
	void *at = file >= 0 && ftruncate(file, (off_t)(2 * bytes())) == 0 ? mmap(nullptr, 2 * bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
	if (at == MAP_FAILED)
		throw Failure("no shared memory of " + std::to_string(2 * bytes()) + " bytes");
	shared = (float *)at;
	memset(shared, 0, 2 * bytes());
	must(api->register_memory(trainer, shared, 2 * bytes()), "register_memory");
}

p2pdiloco_trainer_stats Bench::run(uint64_t slot, uint64_t steps) const {
	const char *self = "12D3KooWA1bysjrTACSWqf6q172inxvwKHUxAnBtVgaVDKMxpZtx";
	volatile uint64_t done = 0;
	p2pdiloco_trainer_task task = {sizeof task, slot, steps, 7, 0, 1, &self, &done, slot, steps, 0, (slot - 1) * steps, slot * steps};
	p2pdiloco_trainer_stats stats = {};
	stats.size = sizeof stats;
	must(api->run(trainer, &task, &stats), "run");
	return stats;
}

void Bench::in_ranges(const std::function<void(uint64_t, uint64_t)> &work) const {
	for (uint64_t at = 0; at < elements; at += range)
		work(at, std::min(range, elements - at));
}

/* One way to move a vector, and what each try took. */
struct Way {
	const char *name;
	std::function<void()> move;
	std::vector<double> seconds;
};

static double median(std::vector<double> v) {
	std::sort(v.begin(), v.end());
	return v[v.size() / 2];
}

/* In turn, so that what disturbs the machine disturbs all of them. */
static void time_copies(const Bench &b, std::vector<Way> &ways) {
	for (int i = 0; i <= tries; i++)
		for (auto &w : ways) {
			double began = now();
			w.move();
			if (i > 0) /* the first one warms up */
				w.seconds.push_back(now() - began);
		}
	printf("  \"copies\": {\"bytes\": %zu", b.bytes());
	for (auto &w : ways) {
		auto [fastest, slowest] = std::minmax_element(w.seconds.begin(), w.seconds.end());
		double gb = (double)b.bytes() / 1e9;
		printf(",\n    \"%s\": {\"gb_per_s\": %.3f, \"slowest\": %.3f, \"fastest\": %.3f}", w.name, gb / median(w.seconds), gb / *slowest, gb / *fastest);
	}
	double plain = median(ways[0].seconds), plain_up = median(ways[1].seconds);
	printf(",\n    \"export_gradient_share_of_plain\": %.4f, \"export_params_share_of_plain\": %.4f, \"load_share_of_plain\": %.4f}\n",
		plain / median(ways[2].seconds), plain / median(ways[3].seconds), plain_up / median(ways[4].seconds));
}

static void copies(const Bench &b) {
	Stream stream;
	Buffer<float> device(b.elements, "the bench's vector");
	Pinned<float> host(b.elements, "the bench's vector");
	memset(host, 0, b.bytes());
	CUDA(cudaMemsetAsync(device, 0, b.bytes(), stream));
	stream.wait();
	const auto *api = b.api;
	std::vector<Way> ways = {
		{"plain_device_to_host", [&] { CUDA(cudaMemcpyAsync(host, device, b.bytes(), cudaMemcpyDeviceToHost, stream)); stream.wait(); }, {}},
		{"plain_host_to_device", [&] { CUDA(cudaMemcpyAsync(device, host, b.bytes(), cudaMemcpyHostToDevice, stream)); stream.wait(); }, {}},
		{"export_gradient", [&] { b.in_ranges([&](uint64_t at, uint64_t n) { b.must(api->export_gradient(b.trainer, at, n, b.shared + b.elements + at), "export_gradient"); }); }, {}},
		{"export_params", [&] { b.in_ranges([&](uint64_t at, uint64_t n) { b.must(api->export_params(b.trainer, at, n, b.shared + b.elements + at), "export_params"); }); }, {}},
		{"load", [&] { b.must(api->load(b.trainer, 0, b.elements, b.shared), "load"); }, {}},
	};
	time_copies(b, ways);
}

static void steps(const Bench &b, int rounds, uint64_t count) {
	b.must(b.api->init(b.trainer, 1, b.shared), "init");
	b.must(b.api->load(b.trainer, 0, b.elements, b.shared), "load");
	b.run(1, count);
	std::vector<double> ms;
	p2pdiloco_trainer_stats s = {};
	for (int i = 0; i < rounds; i++) {
		s = b.run((uint64_t)i + 2, count);
		ms.push_back(s.seconds / (double)s.steps * 1e3);
	}
	double middle = median(ms);
	printf("  \"rounds\": %d, \"steps\": %llu, \"step_ms\": %.4f, \"step_ms_fastest\": %.4f, \"step_ms_slowest\": %.4f,\n", rounds,
		(unsigned long long)count, middle, *std::min_element(ms.begin(), ms.end()), *std::max_element(ms.begin(), ms.end()));
	printf("  \"tokens_per_s\": %.0f, \"loss\": %.4f,\n", (double)s.tokens / (double)s.steps / middle * 1e3, s.loss);
}

static void describe(const Bench &b, const char *device, const char *config) {
	int runtime = 0, driver = 0;
	CUDA(cudaRuntimeGetVersion(&runtime));
	CUDA(cudaDriverGetVersion(&driver));
	printf("{\n  \"device\": \"%s\", \"cuda_runtime\": %d, \"cuda_driver\": %d,\n", device, runtime, driver);
	printf("  \"trainer\": \"%s\", \"parameters\": %llu, \"config\": %s,\n", b.api->name, (unsigned long long)b.elements, config);
}

int main(int argc, char **argv) {
	if (argc != 5 || atoi(argv[3]) < 1 || atoi(argv[4]) < 1) {
		fprintf(stderr, "usage: cuda_bench LIBRARY CONFIG ROUNDS STEPS\n");
		return 2;
	}
	Bench b;
	try {
		std::string device = use_device(0);
		b.open(argv[1], argv[2]);
		describe(b, device.c_str(), argv[2]);
		steps(b, atoi(argv[3]), (uint64_t)atoi(argv[4]));
		copies(b);
		printf("}\n");
		b.must(b.api->unregister_memory(b.trainer, b.shared), "unregister_memory");
		b.api->destroy(b.trainer);
	} catch (const std::exception &e) {
		fprintf(stderr, "cuda_bench: %s\n", e.what());
		return 1;
	}
	return 0;
}
