/* Loads a trainer library and checks what it exports. See host.h. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

#define MAX_TENSORS 65536u
#define MAX_NAME 256u
#define MAX_STRIDE 65536u

typedef const p2pdiloco_trainer_api *(*entry_function)(uint32_t abi);

/* The text of dlerror begins with the path, which the peer's message has already. */
static const char *loader_error(const char *path)
{
	const char *text = dlerror();
	size_t n = strlen(path);
	if (text == NULL)
		return "no reason given";
	if (strncmp(text, path, n) == 0 && strncmp(text + n, ": ", 2) == 0)
		return text + n + 2;
	return text;
}

int32_t library_open(struct host *h, const char *path, struct buffer *out)
{
	h->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	return h->library != NULL ? 0 : buffer_refuse(out, "%s", loader_error(path));
}

/* The functions that every trainer has. */
static const struct {
	const char *name;
	size_t at;
} needed[] = {
	{"create", offsetof(p2pdiloco_trainer_api, create)},
	{"last_error", offsetof(p2pdiloco_trainer_api, last_error)},
	{"layout", offsetof(p2pdiloco_trainer_api, layout)},
	{"init", offsetof(p2pdiloco_trainer_api, init)},
	{"load", offsetof(p2pdiloco_trainer_api, load)},
	{"run", offsetof(p2pdiloco_trainer_api, run)},
	{"cancel", offsetof(p2pdiloco_trainer_api, cancel)},
	{"export_params", offsetof(p2pdiloco_trainer_api, export_params)},
	{"destroy", offsetof(p2pdiloco_trainer_api, destroy)},
};

static int32_t check_functions(const p2pdiloco_trainer_api *api, struct buffer *out)
{
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		void (*function)(void);
		memcpy(&function, (const char *)api + needed[i].at, sizeof(function));
		if (function == NULL)
			return buffer_refuse(out, "its table of functions lacks %s", needed[i].name);
	}
	return 0;
}

static uint32_t abilities(const p2pdiloco_trainer_api *api)
{
	return (api->export_gradient ? CAN_EXPORT_GRADIENT : 0u) | (api->evaluate ? CAN_EVALUATE : 0u) |
	       (api->save && api->restore ? CAN_SAVE : 0u);
}

/* Copies the library's table up to its size. */
static int32_t take_table(struct host *h, const p2pdiloco_trainer_api *theirs, struct buffer *out)
{
	if (theirs == NULL)
		return buffer_refuse(out, "it says that it cannot serve trainer ABI %u", P2PDILOCO_TRAINER_ABI);
	if (theirs->size >= offsetof(p2pdiloco_trainer_api, flags) && theirs->abi != P2PDILOCO_TRAINER_ABI)
		return buffer_refuse(out, "it speaks trainer ABI %u, this program %u", theirs->abi, P2PDILOCO_TRAINER_ABI);
	if (theirs->size < sizeof(h->api)) /* in the first ABI, no table is smaller */
		return buffer_refuse(out, "its table of functions has %llu bytes, that of trainer ABI %u at least %zu",
			(unsigned long long)theirs->size, P2PDILOCO_TRAINER_ABI, sizeof(h->api));
	memcpy(&h->api, theirs, sizeof(h->api));
	return check_functions(&h->api, out);
}

int32_t library_entry(struct host *h, struct buffer *out)
{
	entry_function entry;
	void *symbol = dlsym(h->library, "p2pdiloco_trainer_entry");
	if (symbol == NULL)
		return buffer_refuse(out, "it exports no p2pdiloco_trainer_entry: it is no trainer");
	memcpy(&entry, &symbol, sizeof(entry));
	int32_t code = take_table(h, entry(P2PDILOCO_TRAINER_ABI), out);
	if (code != 0)
		return code;
	uint32_t can = abilities(&h->api);
	buffer_add(out, &can, sizeof(can));
	if (h->api.name != NULL)
		buffer_add(out, h->api.name, strnlen(h->api.name, MAX_NAME));
	return 0;
}

static void add_u32(struct buffer *out, uint32_t value)
{
	buffer_add(out, &value, sizeof(value));
}

/* Writes a tensor as layout.go reads it. Values that are out of bounds are cut, and the peer refuses what remains. */
static void add_tensor(struct buffer *out, const p2pdiloco_trainer_tensor *t)
{
	uint32_t dims = t->dims < P2PDILOCO_TRAINER_MAX_DIMS ? t->dims : P2PDILOCO_TRAINER_MAX_DIMS;
	size_t n = t->name != NULL ? strnlen(t->name, MAX_NAME + 1) : 0;
	add_u32(out, (uint32_t)n);
	buffer_add(out, t->name != NULL ? t->name : "", n);
	add_u32(out, t->dtype);
	add_u32(out, t->dims);
	buffer_add(out, t->shape, dims * sizeof(t->shape[0]));
}

int32_t library_layout(struct host *h, struct buffer *out)
{
	const p2pdiloco_trainer_tensor *tensors = NULL;
	uint64_t count = 0;
	int32_t code = h->api.layout(h->trainer, &tensors, &count);
	if (code != P2PDILOCO_TRAINER_OK)
		return code;
	if (count == 0 || count > MAX_TENSORS || tensors == NULL)
		return buffer_refuse(out, "its layout has %llu tensors%s: 1 to %u are allowed", (unsigned long long)count,
			tensors == NULL ? " at no address" : "", MAX_TENSORS);
	uint64_t stride = tensors[0].size;
	if (stride < sizeof(tensors[0]) || stride > MAX_STRIDE)
		return buffer_refuse(out, "tensor 0 of its layout says that it has %llu bytes, ABI %u's has %zu",
			(unsigned long long)stride, P2PDILOCO_TRAINER_ABI, sizeof(tensors[0]));
	add_u32(out, (uint32_t)count);
	for (uint64_t i = 0; i < count; i++)
		add_tensor(out, (const p2pdiloco_trainer_tensor *)((const char *)tensors + i * stride));
	return 0;
}
