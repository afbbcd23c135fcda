import torch


def _choose(logits, temperature, top_k, generator):
    if not temperature:
        return logits.max(dim=1).indices
    order = logits.sort(dim=1, descending=True)
    kept = order.values / temperature
    if top_k:
        kept[:, top_k:] = float("-inf")
    uniform = torch.rand(kept.shape, generator=generator, dtype=torch.float64).clamp_min(1e-300)
    place = (kept.double() - (-uniform.log()).log()).argmax(dim=1, keepdim=True)
    return order.indices.gather(1, place).squeeze(1)


def generate(model, idx, max_new_tokens, block_size, temperature=1.0, top_k=None, generator=None):
    batch, length = idx.shape
    text = idx.new_zeros((batch, length + max_new_tokens))
    text[:, :length] = idx
    mode = model.training
    try:
        model.eval()
        with torch.inference_mode():
            for end in range(length, length + max_new_tokens):
                out = model(text[:, max(0, end - block_size) : end])
                text[:, end] = _choose(out[0][:, -1, :], temperature, top_k, generator)
    finally:
        model.train(mode)
    return text
