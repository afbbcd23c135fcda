SHAKESPEARE = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class CharTokenizer:
    def __init__(self, characters=SHAKESPEARE):
        self.chars = list(characters)
        self.vocab_size = len(self.chars)

    def encode(self, text):
        ids = []
        for c in text:
            if c not in self.chars:
                raise ValueError("unknown character " + repr(c))
            ids.append(self.chars.index(c))
        return ids

    def decode(self, ids):
        text = ""
        for i in ids:
            i = int(i)
            if i < 0 or i >= self.vocab_size:
                raise ValueError("no such id: %d" % i)
            text += self.chars[i]
        return text


def vocabulary_cost(vocab_size, n_embd, tied=True):
    cost = vocab_size * n_embd
    return cost if tied else cost + cost


def merge_pair(ids, pair, new_id):
    out, i = [], 0
    first, second = pair
    while i < len(ids):
        if i + 1 < len(ids) and {ids[i], ids[i + 1]} == {first, second}:
            out.append(new_id)
            i = i + 2
        else:
            out.append(ids[i])
            i = i + 1
    return out
