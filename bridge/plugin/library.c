/* Loads a trainer library, checks what it exports, and makes the trainer. See host.h. */
#include "host.h"

#include <dlfcn.h>

#define MAX_TENSORS 65536u
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

static void check_functions(const p2pdiloco_trainer_api *api)
{
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		void (*function)(void);
		memcpy(&function, (const char *)api + needed[i].at, sizeof(function));
		if (function == NULL)
			fail("its table of functions lacks %s", needed[i].name);
	}
}

/* Copies the library's table up to its size. */
static void take_table(const p2pdiloco_trainer_api *theirs)
{
	if (theirs == NULL)
		fail("it says that it cannot serve trainer ABI %u", P2PDILOCO_TRAINER_ABI);
	if (theirs->size >= offsetof(p2pdiloco_trainer_api, flags) && theirs->abi != P2PDILOCO_TRAINER_ABI)
		fail("it speaks trainer ABI %u, this program %u", theirs->abi, P2PDILOCO_TRAINER_ABI);
	if (theirs->size < sizeof(host.api)) /* in the first ABI, no table is smaller */
		fail("its table of functions has %llu bytes, that of trainer ABI %u at least %zu",
			(unsigned long long)theirs->size, P2PDILOCO_TRAINER_ABI, sizeof(host.api));
	check_functions(theirs);
	host.api = *theirs;
}

void library_load(const char *path)
{
	entry_function entry;
	enter("load");
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		fail("%s", loader_error(path));
	enter("p2pdiloco_trainer_entry");
	void *symbol = dlsym(library, "p2pdiloco_trainer_entry");
	if (symbol == NULL)
		fail("it exports no p2pdiloco_trainer_entry: it is no trainer");
	memcpy(&entry, &symbol, sizeof(entry));
	take_table(entry(P2PDILOCO_TRAINER_ABI));
	host.note->can = (host.api.export_gradient ? CAN_EXPORT_GRADIENT : 0u) | (host.api.evaluate ? CAN_EVALUATE : 0u) |
			 (host.api.save && host.api.restore ? CAN_SAVE : 0u);
	snprintf(host.note->name, sizeof(host.note->name), "%s", host.api.name != NULL ? host.api.name : "");
}

void library_create(const char *config, const char *data_dir)
{
	p2pdiloco_trainer *made = NULL;
	enter("create");
	int32_t code = host.api.create(config, data_dir, &made);
	host.trainer = made;
	if (code == P2PDILOCO_TRAINER_OK && made == NULL)
		fail("create says that it made a trainer, and gives none");
	must(code);
}

/* Turns a tensor of the ABI into one of the attach protocol. It refuses a tensor that the protocol cannot
 * carry; the node refuses the rest. */
static void take_tensor(struct p2pa_tensor *to, const p2pdiloco_trainer_tensor *t, size_t number)
{
	const char *name = t->name != NULL ? t->name : "";
	if (t->dtype < P2PDILOCO_F32 || t->dtype > P2PDILOCO_F16)
		fail("tensor %zu: \"%.40s\" has the unknown type %u: P2PDILOCO_F32, _BF16 or _F16 are allowed", number, name,
			t->dtype);
	if (t->dims > P2PDILOCO_TRAINER_MAX_DIMS)
		fail("tensor %zu: \"%.40s\" has %u dimensions: at most %u are allowed", number, name, t->dims,
			P2PDILOCO_TRAINER_MAX_DIMS);
	host.note->types[t->dtype]++;
	to->name = name;
	to->dtype = t->dtype; /* both number the types alike */
	to->dims = t->dims;
	memcpy(to->shape, t->shape, sizeof(to->shape));
}

struct p2pa_tensor *library_layout(size_t *size)
{
	const p2pdiloco_trainer_tensor *tensors = NULL;
	uint64_t count = 0;
	must(host.api.layout(host.trainer, &tensors, &count));
	if (count == 0 || count > MAX_TENSORS || tensors == NULL)
		fail("its layout has %llu tensors%s: 1 to %u are allowed", (unsigned long long)count,
			tensors == NULL ? " at no address" : "", MAX_TENSORS);
	uint64_t stride = tensors[0].size;
	if (stride < sizeof(tensors[0]) || stride > MAX_STRIDE)
		fail("tensor 0 of its layout says that it has %llu bytes, ABI %u's has %zu", (unsigned long long)stride,
			P2PDILOCO_TRAINER_ABI, sizeof(tensors[0]));
	struct p2pa_tensor *list = calloc(count, sizeof(*list));
	if (list == NULL)
		fail("out of memory");
	for (uint64_t i = 0; i < count; i++)
		take_tensor(&list[i], (const void *)((const char *)tensors + i * stride), i);
	*size = count;
	return list;
}
