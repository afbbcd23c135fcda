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
        # TODO: set self.vocab_size, and keep what encode and decode look up.
        # Ours takes 3 lines.
        raise NotImplementedError("CharTokenizer.__init__ is still to be written")

    def encode(self, text: str) -> list[int]:
        """Return the ids of the N characters of `text`, a list of N integers.

        Raises ValueError for a character without an id, and names it: nothing is dropped or replaced.
        """
        # TODO: refuse unknown characters by name (ValueError); look up all others.
        # Ours takes 4 lines.
        raise NotImplementedError("CharTokenizer.encode is still to be written")

    def decode(self, ids) -> str:
        """Return the text of `ids`, integers in a list or in a tensor (N), as a model gives them.

        Raises ValueError for an id outside 0 to V - 1. Negative ones are outside, though a list would take them.
        """
        # TODO: refuse ids that are no character's (ValueError); join the characters of the others.
        # Ours takes 5 lines.
        raise NotImplementedError("CharTokenizer.decode is still to be written")


def vocabulary_cost(vocab_size: int, n_embd: int, tied: bool = True) -> int:
    """Return how many parameters a vocabulary costs: C = n_embd numbers for each token in the table and in the head.

    Tied, table and head are one matrix, which counts once: 65 tokens of width 384 cost 24,960 parameters.
    """
    # TODO: count the table, and the head where it is a matrix of its own.
    # Ours takes 2 lines.
    raise NotImplementedError("vocabulary_cost is still to be written")


def merge_pair(ids: list[int], pair: tuple[int, int], new_id: int) -> list[int]:
    """Return a new list: `ids` with `new_id` wherever `pair` stood. This is one merge of byte-pair encoding.

    From left to right, and what was merged is used up: (7, 7) in [7, 7, 7] gives [new_id, 7].
    """
    # TODO: walk through ids; where both members of pair follow each other, put new_id and go on behind them.
    # Ours takes 9 lines.
    raise NotImplementedError("merge_pair is still to be written")
