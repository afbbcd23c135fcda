# %% Tokenizer: text to integers and back [markdown]
# A model computes with integers, so text has to become some. One token a character is the plainest way: 65 of them are
# enough for Shakespeare. Larger vocabularies make text shorter and the model's tables larger; the two functions at the
# end show both sides.

# %%
CHARACTERS = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # 65, in the order of code points


class CharTokenizer:
    """Text to ids and back, a character a token. `vocab_size` is the number of characters, V.

    The id of a character is its place in `characters`, counted from 0: by default "Hello" is 20, 43, 50, 50, 53.
    """

    def __init__(self, characters: str = CHARACTERS) -> None:
        """Number `characters`: each is there once, in the order of their code points."""
        # set self.vocab_size, and keep what encode and decode look up.
        ### BEGIN SOLUTION
        self.vocab_size = len(characters)
        self.id_of = {character: number for number, character in enumerate(characters)}
        self.character_of = dict(enumerate(characters))
        ### END SOLUTION

    def encode(self, text: str) -> list[int]:
        """Return the ids of the N characters of `text`, a list of N integers.

        Raises ValueError for a character without an id, and names it: nothing is dropped or replaced.
        """
        # refuse unknown characters by name (ValueError); look up all others.
        ### BEGIN SOLUTION
        unknown = sorted(set(text) - set(self.id_of))
        if unknown:
            raise ValueError(f"no id for {', '.join(map(repr, unknown))}")
        return [self.id_of[character] for character in text]
        ### END SOLUTION

    def decode(self, ids) -> str:
        """Return the text of `ids`, integers in a list or in a tensor (N), as a model gives them.

        Raises ValueError for an id outside 0 to V - 1. Negative ones are outside, though a list would take them.
        """
        # refuse ids that are no character's (ValueError); join the characters of the others.
        ### BEGIN SOLUTION
        numbers = [int(number) for number in ids]  # an element of a tensor is a tensor, which no dict finds
        for each in numbers:
            if each not in self.character_of:
                raise ValueError(f"id {each} is not one of 0 to {self.vocab_size - 1}")
        return "".join(self.character_of[number] for number in numbers)
        ### END SOLUTION


def vocabulary_cost(vocab_size: int, n_embd: int, tied: bool = True) -> int:
    """Return how many parameters a vocabulary costs: C = n_embd numbers for each token in the table and in the head.

    Tied, table and head are one matrix, which counts once: 65 tokens of width 384 cost 24,960 parameters.
    """
    # count the table, and the head where it is a matrix of its own.
    ### BEGIN SOLUTION
    matrices = 1 if tied else 2
    return matrices * vocab_size * n_embd
    ### END SOLUTION


def merge_pair(ids: list[int], pair: tuple[int, int], new_id: int) -> list[int]:
    """Return a new list: `ids` with `new_id` wherever `pair` stood. This is one merge of byte-pair encoding.

    From left to right, and what was merged is used up: (7, 7) in [7, 7, 7] gives [new_id, 7].
    """
    # walk through ids; where both members of pair follow each other, put new_id and go on behind them.
    ### BEGIN SOLUTION
    merged, place = [], 0
    while place < len(ids):
        if tuple(ids[place : place + 2]) == tuple(pair):
            merged.append(new_id)
            place += 2
        else:
            merged.append(ids[place])
            place += 1
    return merged
    ### END SOLUTION
