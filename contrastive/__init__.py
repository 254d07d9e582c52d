"""Better sentence vectors before any task is seen. Reading order: losses, methods, quality, pretrain.

Measuring any encoder: survey (the command), vectors, scores, measure, pages.
"""
