import json
import tempfile
import time
from pathlib import Path

import numpy as np
from ray import train
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def fit_line(config):
    """y = 3x + 1 by gradient descent, from the last checkpoint if there is one."""
    weights, first = [0.0, 0.0], 0
    if (last := train.get_checkpoint()) is not None:
        with last.as_directory() as folder:
            state = json.loads(Path(folder, "state.json").read_text())
        weights, first = state["weights"], state["step"] + 1
    rank, ranks = train.get_context().get_world_rank(), train.get_context().get_world_size()
    x = np.linspace(-1, 1, 64)[rank::ranks]
    for step in range(first, config["steps"]):
        error = weights[0] * x + weights[1] - (3 * x + 1)
        slopes = float((error * x).mean()), float(error.mean())
        weights = [weight - 0.5 * slope for weight, slope in zip(weights, slopes, strict=True)]
        time.sleep(0.1)
        with tempfile.TemporaryDirectory() as folder:
            state = {"weights": weights, "step": step}
            Path(folder, "state.json").write_text(json.dumps(state))
            checkpoint = Checkpoint.from_directory(folder) if rank == 0 else None
            train.report({"step": step, "slope": weights[0]}, checkpoint=checkpoint)


def trainer_for(storage):
    """Three ranks, whose checkpoints are in a folder or bucket that all workers can write to."""
    return DataParallelTrainer(
        fit_line,
        train_loop_config={"steps": 15},
        scaling_config=ScalingConfig(num_workers=3, resources_per_worker={"CPU": 2}),
        run_config=RunConfig(
            storage_path=storage,
            failure_config=FailureConfig(max_failures=5),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
