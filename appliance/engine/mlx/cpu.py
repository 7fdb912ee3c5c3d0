"""What the CPU backend computes in faster ways than MLX's own: all of it put in place here."""

from appliance.engine.mlx import cpu_activations, cpu_fast, cpu_products


def install(*, compiled: bool) -> None:
    """Where nothing is `compiled`, activations and attention gain little on long prompts and lose on short ones."""
    if compiled:
        cpu_activations.install()
        cpu_fast.install()
    cpu_products.install()
