"""Better sentence vectors before any task is seen. Reading order: losses, methods, quality, pretrain."""
