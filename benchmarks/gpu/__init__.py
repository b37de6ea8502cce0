"""The parts of `benchmarks/flash_gpu.py`: what is measured on a graphics card, and how."""
