import torch

ALPHABET = "\n !$&',-.3:;?" + "".join(map(chr, range(65, 91))) + "".join(map(chr, range(97, 123)))


class CharTokenizer:
    def __init__(self, characters=ALPHABET):
        self._characters = tuple(characters)
        self.vocab_size = len(self._characters)

    def encode(self, text):
        out = []
        for position, character in enumerate(text):
            try:
                out.append(self._characters.index(character))
            except ValueError:
                raise ValueError(f"character {character!r} (U+{ord(character):04X}) at {position}") from None
        return torch.tensor(out, dtype=torch.long)

    def decode(self, ids):
        ids = torch.as_tensor(ids, dtype=torch.long).reshape(-1).tolist()
        bad = [i for i in ids if not 0 <= i < self.vocab_size]
        if bad:
            raise ValueError(f"{bad[0]} is no id")
        return str().join(map(self._characters.__getitem__, ids))


def vocabulary_cost(vocab_size, n_embd, tied=True):
    embedding = vocab_size * n_embd
    head = 0 if tied else embedding
    return embedding + head


def merge_pair(ids, pair, new_id):
    todo, done = list(ids), []
    while todo:
        head = todo.pop(0)
        if todo and (head, todo[0]) == tuple(pair):
            todo.pop(0)
            head = new_id
        done.append(head)
    return done
