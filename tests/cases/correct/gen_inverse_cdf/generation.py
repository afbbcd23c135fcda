import torch


def generate(model, idx, max_new_tokens, block_size, temperature=1.0, top_k=None, generator=None):
    columns = list(idx.unbind(dim=1))
    was_training, _ = model.training, model.train(False)
    for _ in range(max_new_tokens):
        context = torch.stack(columns[-block_size:], dim=1)
        with torch.no_grad():
            logits = model(context)[0].select(1, -1).double()
        k = 1 if temperature == 0 else min(top_k or logits.shape[1], logits.shape[1])
        best, ids = logits.topk(k, dim=1)
        odds = torch.softmax(best / (temperature or 1.0), dim=1)
        if k == 1:
            pick = torch.zeros(len(idx), 1, dtype=torch.int64)
        else:
            u = torch.rand(len(idx), 1, generator=generator, dtype=torch.float64)
            pick = (odds.cumsum(dim=1) < u).sum(dim=1, keepdim=True).clamp(max=k - 1)
        columns.append(ids.gather(1, pick)[:, 0])
    if was_training:
        model.train()
    return torch.stack(columns, dim=1)
