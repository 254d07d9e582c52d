"""From files on disk to padded batches; knows no model and imports nothing of ours."""
