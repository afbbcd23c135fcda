from gpt import GPTConfig
