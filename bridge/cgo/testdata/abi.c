/* Prints the sizes and offsets of the trainer ABI. */
#include <stdio.h>

#include "p2pdiloco_trainer.h"

#define SIZE(type) printf("%s %zu\n", #type, sizeof(type))
#define AT(type, field) printf("  %s %zu\n", #field, offsetof(type, field))

int main(void)
{
	SIZE(p2pdiloco_trainer_tensor);
	AT(p2pdiloco_trainer_tensor, name), AT(p2pdiloco_trainer_tensor, dtype);
	AT(p2pdiloco_trainer_tensor, dims), AT(p2pdiloco_trainer_tensor, shape);
	SIZE(p2pdiloco_trainer_task);
	AT(p2pdiloco_trainer_task, slot), AT(p2pdiloco_trainer_task, steps), AT(p2pdiloco_trainer_task, seed);
	AT(p2pdiloco_trainer_task, rank), AT(p2pdiloco_trainer_task, member_count), AT(p2pdiloco_trainer_task, members);
	AT(p2pdiloco_trainer_task, steps_done), AT(p2pdiloco_trainer_task, part), AT(p2pdiloco_trainer_task, part_steps);
	AT(p2pdiloco_trainer_task, done), AT(p2pdiloco_trainer_task, step), AT(p2pdiloco_trainer_task, total_steps);
	SIZE(p2pdiloco_trainer_stats);
	AT(p2pdiloco_trainer_stats, steps), AT(p2pdiloco_trainer_stats, samples), AT(p2pdiloco_trainer_stats, tokens);
	AT(p2pdiloco_trainer_stats, loss), AT(p2pdiloco_trainer_stats, seconds), AT(p2pdiloco_trainer_stats, gradient_norm);
	SIZE(p2pdiloco_trainer_api);
	AT(p2pdiloco_trainer_api, abi), AT(p2pdiloco_trainer_api, flags), AT(p2pdiloco_trainer_api, name);
	AT(p2pdiloco_trainer_api, create), AT(p2pdiloco_trainer_api, last_error), AT(p2pdiloco_trainer_api, layout);
	AT(p2pdiloco_trainer_api, register_memory), AT(p2pdiloco_trainer_api, unregister_memory);
	AT(p2pdiloco_trainer_api, init), AT(p2pdiloco_trainer_api, load), AT(p2pdiloco_trainer_api, run);
	AT(p2pdiloco_trainer_api, cancel), AT(p2pdiloco_trainer_api, export_params);
	AT(p2pdiloco_trainer_api, export_gradient), AT(p2pdiloco_trainer_api, evaluate), AT(p2pdiloco_trainer_api, save);
	AT(p2pdiloco_trainer_api, restore), AT(p2pdiloco_trainer_api, destroy);
	printf("ABI %u, OK %d, FAILED %d, CANCELLED %d, F32 %d, BF16 %d, F16 %d, dims %u\n", P2PDILOCO_TRAINER_ABI,
		P2PDILOCO_TRAINER_OK, P2PDILOCO_TRAINER_FAILED, P2PDILOCO_TRAINER_CANCELLED, P2PDILOCO_F32, P2PDILOCO_BF16,
		P2PDILOCO_F16, P2PDILOCO_TRAINER_MAX_DIMS);
	return 0;
}
