<!DOCTYPE html>
<html lang="en">
<head><title>model.py</title></head>
<body><pre>class GPT(nn.Module): ...</pre></body>
</html>
