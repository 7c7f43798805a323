"""Stand-ins for training libraries, made from the hooks that these document.

They have what the integrations use: when which hook is called, what it is given, and what is done
with its answer. install() makes those importable that are not here; real(name) is the library
itself, or None.

    transformers  TrainerCallback, Trainer(model, args, callbacks=…).train()
    accelerate    Accelerator: prepare, accumulate, backward, sync_gradients
    lightning     Callback, LightningModule, Trainer(…).fit(module, loader)
    torchtitan    Trainer: train, train_step, should_continue_training, batch_generator
"""

import contextlib
import importlib
import importlib.machinery
import sys
import types

import torch


def real(name):
    """The library, where it can be imported; it may be of another PyTorch's time."""
    try:
        return importlib.import_module(name)
    except Exception:
        return None


def lightning():
    """Lightning under either of its names, or None."""
    return real("lightning.pytorch") or real("pytorch_lightning")


def install():
    """Must be called before the integrations are imported."""
    if real("transformers") is None:
        _module("transformers", TrainerCallback=TrainerCallback)
    if lightning() is None:
        _module("lightning")
        _module("lightning.pytorch", Callback=Callback)


def _module(name, **members):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, None)
    vars(sys.modules[name]).update(members)


def world():
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1


# Accelerate.


class AcceleratedOptimizer(torch.optim.Optimizer):
    """Steps when the gradients of all batches of a step are there. skip(n): whether a GradScaler
    leaves out the n-th of these steps, from 0, as after an overflow."""

    def __init__(self, optimizer, accelerator):
        self.optimizer, self.scaler = optimizer, None
        self.step_was_skipped = False
        self._accelerator, self._n = accelerator, 0

    def step(self, closure=None):
        if not self._accelerator.sync_gradients:
            return
        self.step_was_skipped = self._accelerator.skip(self._n)
        self._n += 1
        if not self.step_was_skipped:
            self.optimizer.step(closure)

    def zero_grad(self, set_to_none=None):
        if self._accelerator.sync_gradients:
            self.optimizer.zero_grad()

    def state_dict(self):
        return self.optimizer.state_dict()

    def load_state_dict(self, state):
        self.optimizer.load_state_dict(state)


class Accelerator:
    def __init__(self, gradient_accumulation_steps=1, skip=lambda n: False):
        self.gradient_accumulation_steps, self.skip = gradient_accumulation_steps, skip
        self.sync_gradients, self._batches = True, 0
        self.num_processes = world()

    def prepare(self, *objects):
        made = [self._prepared(one) for one in objects]
        return made[0] if len(made) == 1 else made

    def _prepared(self, one):
        if isinstance(one, torch.nn.Module) and self.num_processes > 1:
            return torch.nn.parallel.DistributedDataParallel(one)
        if isinstance(one, torch.optim.Optimizer):
            return AcceleratedOptimizer(one, self)
        if isinstance(one, torch.utils.data.DataLoader) and self.num_processes > 1:
            return Divided(one)
        return one

    @contextlib.contextmanager
    def accumulate(self, model):
        self._batches += 1
        self.sync_gradients = self._batches % self.gradient_accumulation_steps == 0
        yield

    def backward(self, loss):
        (loss / self.gradient_accumulation_steps).backward()


class Divided:
    """A loader of which every rank gets each batch that is its turn."""

    def __init__(self, loader):
        self._loader = loader

    def __iter__(self):
        for i, batch in enumerate(self._loader):
            if i % world() == torch.distributed.get_rank():
                yield batch


# Hugging Face transformers.


class TrainerCallback:
    def on_train_begin(self, args, state, control, **kwargs):
        pass

    on_train_end = on_step_begin = on_substep_end = on_step_end = on_log = on_train_begin


class Trainer:
    """args: max_steps, gradient_accumulation_steps, logging_steps, load_best_model_at_end. model
    gives the loss of a batch."""

    def __init__(self, model, args, loader, callbacks, optimizer, skip=lambda n: False):
        self.model, self.args, self.callbacks = model, args, callbacks
        self.accelerator = Accelerator(args.gradient_accumulation_steps, skip)
        self.loader = self.accelerator.prepare(loader)
        self._wrapped, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1.0)
        self.state = types.SimpleNamespace(max_steps=args.max_steps, global_step=0)
        self.control = types.SimpleNamespace(should_training_stop=False)
        self.logs = []  # lines

    def _call(self, hook, **more):
        for callback in self.callbacks:
            answer = getattr(callback, hook)(
                self.args, self.state, self.control, model=self.model, optimizer=self.optimizer,
                lr_scheduler=self.scheduler, **more,
            )
            self.control = self.control if answer is None else answer

    def train(self):
        self._call("on_train_begin")
        while not self.control.should_training_stop:
            for batch in self.loader:
                self._batch(batch)
                if self.control.should_training_stop:
                    break
        self._call("on_train_end")

    def _batch(self, batch):
        with self.accelerator.accumulate(self._wrapped):
            loss = self._wrapped(batch)
            self.accelerator.backward(loss)
        if not self.accelerator.sync_gradients:
            return self._call("on_substep_end")
        self.optimizer.step()
        if not self.optimizer.step_was_skipped:
            self.scheduler.step()
        self.optimizer.zero_grad()
        self.state.global_step += 1
        self.control.should_training_stop = self.state.global_step >= self.args.max_steps
        self._call("on_step_end")
        if self.state.global_step % self.args.logging_steps == 0:
            self.logs.append({"loss": loss.item()})
            self._call("on_log", logs=self.logs[-1])


# Lightning.


class Callback:
    def on_train_start(self, trainer, pl_module):
        pass


class LightningModule(torch.nn.Module):
    """training_step(batch, index) gives the loss; configure_optimizers the optimizer."""


class LightningTrainer:
    """fit trains until should_stop, or max_steps. The optimizer runs the closure, which holds
    forward and backward, as with automatic optimization."""

    min_epochs, min_steps, num_nodes, max_steps, should_stop = 0, None, 1, -1, False
    loggers = ()

    def __init__(self, callbacks, accumulate_grad_batches=1, **options):
        self.callbacks, self.accumulate_grad_batches = callbacks, accumulate_grad_batches
        vars(self).update(options)
        self.lr_scheduler_configs, self.global_step = [], 0

    def fit(self, module, loader):
        self.optimizers = [module.configure_optimizers()]
        self.model = module
        if world() > 1:
            self.model = torch.nn.parallel.DistributedDataParallel(_Step(module))
        try:
            self._call("on_train_start", module)
            self._train(module, loader)
            self._call("on_train_end", module)
        except KeyboardInterrupt as err:
            self._call("on_exception", module, err)
        except BaseException as err:
            self._call("on_exception", module, err)
            raise

    def _train(self, module, loader):
        seen = 0
        while not self._done():
            for i, batch in enumerate(loader):
                seen += 1
                if self._done():
                    return
                self._call("on_train_batch_start", module, batch, i)
                outputs = self._batch(module, batch, i, seen % self.accumulate_grad_batches == 0)
                self._call("on_train_batch_end", module, outputs, batch, i)

    def _done(self):
        assert self.global_step < 1000, "nothing ends the fit"
        return self.should_stop or 0 <= self.max_steps <= self.global_step

    def _batch(self, module, batch, i, steps):
        told = {}

        def closure():
            forward = self.model if self.model is not module else module.training_step
            loss = forward(batch, i) / self.accumulate_grad_batches
            loss.backward()
            told["loss"] = loss.detach()
            return loss

        if steps:
            self.optimizers[0].step(closure)
            self.optimizers[0].zero_grad()
            self.global_step += 1
        else:
            closure()
        return told

    def _call(self, hook, module, *arguments):
        for callback in self.callbacks:
            getattr(callback, hook)(self, module, *arguments)


class _Step(torch.nn.Module):
    """The module as DistributedDataParallel needs it: forward is the training step."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *arguments):
        return self.module.training_step(*arguments)


# torchtitan.


class TitanTrainer:
    """model gives the loss of inputs and labels."""

    def __init__(self, model, optimizer, loader, steps, pp=False, sharing=1):
        self.model_parts, self.optimizers, self.dataloader = [model], optimizer, loader
        self.lr_schedulers = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1.0)
        self.parallel_dims = types.SimpleNamespace(pp_enabled=pp, non_data_parallel_size=sharing)
        self.steps, self.step = steps, 0

    def train(self):
        batches = self.batch_generator(self.dataloader)
        while self.should_continue_training():
            self.step += 1
            self.train_step(batches)

    def train_step(self, batches):
        self.optimizers.zero_grad()
        self.model_parts[0](*next(batches)).backward()
        self.optimizers.step()
        self.lr_schedulers.step()

    def should_continue_training(self):
        return self.step < self.steps

    def batch_generator(self, data):
        while True:
            yield from data
