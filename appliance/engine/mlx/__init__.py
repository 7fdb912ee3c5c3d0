"""The only package that imports mlx, mlx_lm and transformers; everything here runs on the step loop's thread."""
