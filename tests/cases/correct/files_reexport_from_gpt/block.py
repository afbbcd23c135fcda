from gpt import Block
