"""One thread for torch: the tensors are small, and two threads on a busy core wait for each other."""

import torch

torch.set_num_threads(1)
