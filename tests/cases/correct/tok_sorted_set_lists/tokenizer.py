class CharTokenizer:
    def __init__(self, characters="\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"):
        self.chars = sorted(set(characters))
        self.stoi = {ch: i for i, ch in enumerate(self.chars)}

    @property
    def vocab_size(self):
        return len(self.chars)

    def encode(self, s):
        return [self.stoi[c] for c in s]

    def decode(self, l):
        if any(i < 0 for i in l):
            raise IndexError("negative id")
        return "".join(self.chars[i] for i in l)


def vocabulary_cost(vocab_size, n_embd, tied=True):
    return vocab_size * n_embd if tied else 2 * vocab_size * n_embd


def merge_pair(ids, pair, new_id):
    a, b = pair
    out = []
    for i in ids:
        if out and out[-1] == a and i == b and not (out[-1] is None):
            out[-1] = new_id
        else:
            out.append(i)
    return out
