"""Which family the chat templates of well-known models are of, by the names such files go by.

A DeepSeek V3 template whose prompts end inside the reasoning is R1's, whatever it is called.
"""

FAMILIES = {
    "apertus": "apertus", "apriel-1.5": "apriel", "bielik-11b": "bielik", "cogito": "cogito",
    "cohere2-moe": "command", "command-r-plus": "command-r", "command-r7b": "command",
    "deepseek-r1-distill": "deepseek-r1", "deepseek-v3.1": "deepseek-v3.1", "deepseek-v3": "deepseek-r1",
    "deepseek-v4": "deepseek-v4", "exaone-4": "exaone-4", "firefunction-v2": "firefunction",
    "functionary-v3.2": "functionary-v3.2", "gemma3": "gemma3", "gemma4": "gemma4", "glm-4.5": "glm-4.5",
    "glm-4.7-flash": "glm-4.7", "gpt-oss": "gpt-oss", "granite-3.3": "granite-3", "granite-4.0": "granite-4",
    "hermes-2-pro": "hermes", "jamba": "jamba", "kimi-k2-instruct": "kimi-k2", "kimi-k3": "kimi-k3",
    "laguna-s": "laguna", "lfm2.5-instruct": "lfm2.5", "lfm2": "lfm2", "llama3.1": "llama3",
    "llama3.2-vision": "llama3", "llama4": "llama4", "mimo-vl": "mimo", "minicpm5": "minicpm5",
    "minimax-m2": "minimax-m2", "ministral3-reasoning": "magistral", "mistral-nemo": "mistral",
    "mistral-small-3.2": "mistral-small-3.2", "nemotron-3-super": "nemotron-3", "nemotron-nano-v2": "nemotron-2",
    "olmo3": "olmo3", "phi-4-mini": "phi4-mini", "qwen2.5": "qwen2.5", "qwen3-coder": "qwen3-coder",
    "qwen3-instruct-2507": "qwen3-instruct-2507", "qwen3.5": "qwen3.5", "qwen3": "qwen3", "qwq": "qwq",
    "reka-edge": "reka-edge", "rwkv-world": "rwkv", "seed-oss": "seed-oss", "smollm3": "smollm3",
    "step-3.5-flash": "step-3.5",
}  # fmt: skip
