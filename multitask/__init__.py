"""The multitask stage: three tasks (SST, PARA, STS) on one encoder, from a step's batches to the leaderboard files.

Reading order: tasks.py (what a task is), losses.py, heads.py, model.py, sampling.py (which batches make a step),
surgery.py (how its losses become one gradient), train.py, evaluate.py, predictions.py (the files it ends in),
baselines.py (what the scores are held against), results.py. Imports minbert and data, never contrastive: the two
stages meet through an encoder checkpoint.
"""
