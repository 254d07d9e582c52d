"""The rows of the tasks for the stage `--pretrain mlm`, which knows no tasks itself."""

from __future__ import annotations

from data.options import DataOptions
from minbert.pretraining.stage import StageRows
from multitask.options import MultitaskOptions
from multitask.rows import EncodedTables
from multitask.sampling import mt_dnn
from multitask.stage import batch_makers


def rows_for_mlm(
    rows: EncodedTables, options: MultitaskOptions, batch_size: int, data: DataOptions
) -> StageRows:
    """The rows of the tasks as the stage `--pretrain mlm` takes them."""
    make_batches = batch_makers(rows, batch_size, options.fine_tuning.max_tokens)
    examples = []
    for splits in rows.values():
        examples += [*splits["train"].examples, *splits["dev"].examples]
    return StageRows(
        train={task: splits["train"] for task, splits in rows.items()},
        dev=[splits["dev"] for splits in rows.values()],
        examples=examples,
        plan=lambda generator: mt_dnn(make_batches, generator),
        identity={
            "max_length": data.max_length,
            "max_tokens": options.fine_tuning.max_tokens,
            "pair_encoding": options.heads.pair_encoding,
        },
        packages=("data", "multitask"),
    )
