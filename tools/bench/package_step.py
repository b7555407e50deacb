# SPDX-License-Identifier: Apache-2.0
"""One side of compare_variants.py: full training steps of the model of pytorch_step.py with the attention of a published package in it.

A package's module is used as it comes, without dropout. Only with --checkpoint, where both sides are to give the same numbers, are its query, key
and value projections given biases, BigBird the random blocks that we drew, Performer next to nothing to add to features, and the values of
linear-attention-transformer the root of the head's width that it divides queries by. An attention that is another function than ours keeps
weights of its own. With --checkpoint it also counts the parameters of both sides.
"""
import itertools
import json
import math
import sys

import torch
from torch import nn

from pytorch_step import Attention, Classifier, HeadAttention, answer, attend_full, attend_linear, load, parser_of, train


def attend_materialised(q, k, v, mask):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def with_bias(module, *names):
    for name in names:
        linear = getattr(module, name)
        setattr(module, name, nn.Linear(linear.in_features, linear.out_features))


def take(own, **names):
    """Weight and bias of projections: where it is to go = its name here."""
    return {f"inner.{to}.{kind}": own.pop(f"{name}.{kind}") for to, name in names.items() for kind in ("weight", "bias")}


class Package(Attention):
    """`inner` has all projections, and weights of its own unless state_of says otherwise."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def attend(self, x):
        return self.inner(x)

    def forward(self, x, mask):
        out = self.attend(x)
        if out.shape != x.shape:
            sys.exit(f"the attention makes {tuple(out.shape)} of {tuple(x.shape)}")
        return out

    def state_of(self, own):
        own.clear()
        return self.state_dict()


class Linformer(Package):
    def __init__(self, case, layer, exact):
        from linformer import LinformerSelfAttention
        super().__init__(LinformerSelfAttention(case["dim"], case["length"], k=256, heads=case["heads"]))
        if exact:
            with_bias(self.inner, "to_q", "to_k", "to_v")

    def state_of(self, own):
        keys, values = own.pop("compression").split(self.inner.k)
        return {"inner.proj_k": keys.T, "inner.proj_v": values.T, **take(own, to_q="query", to_k="key", to_v="value", to_out="output")}


class Nystrom(Package):
    def __init__(self, case, layer, exact):
        from nystrom_attention import NystromAttention
        super().__init__(NystromAttention(case["dim"], dim_head=case["dim"] // case["heads"], heads=case["heads"], num_landmarks=256))
        if exact:
            with_bias(self.inner, "to_qkv")

    def state_of(self, own):
        state = {f"inner.to_qkv.{kind}": torch.cat([own.pop(f"{part}.{kind}") for part in ("query", "key", "value")]) for kind in ("weight", "bias")}
        return {**state, **take(own, **{"to_out.0": "output"}), "inner.res_conv.weight": own.pop("convolution.weight")[:, None, :, None]}


class Performer(Package):
    def __init__(self, case, layer, exact):
        from performer_pytorch.performer_pytorch import SelfAttention, softmax_kernel
        super().__init__(SelfAttention(case["dim"], heads=case["heads"], dim_head=case["dim"] // case["heads"], nb_features=256, qkv_bias=exact))
        if exact:
            softmax_kernel.__kwdefaults__["eps"] = 1e-12

    def state_of(self, own):
        del own["redraws"]
        features = own.pop("features")[:256]  # of the first head; the others have the same
        return {"inner.fast_attention.projection_matrix": features, **take(own, to_q="query", to_k="key", to_v="value", to_out="output")}


class Scaled(nn.Module):
    def __init__(self, inner, factor):
        super().__init__()
        self.inner, self.factor = inner, factor

    def forward(self, x):
        return self.inner(x) * self.factor


class Efficient(Package):
    def __init__(self, case, layer, exact):
        from linear_attention_transformer.linear_attention_transformer import SelfAttention
        super().__init__(SelfAttention(case["dim"], case["heads"]))
        if exact:
            with_bias(self.inner, "to_q", "to_k", "to_v")
            self.inner.to_v = Scaled(self.inner.to_v, math.sqrt(self.inner.d_heads))

    def state_of(self, own):
        return take(own, **{"to_q": "query", "to_k": "key", "to_v.inner": "value", "to_out": "output"})


class WithOutput(Package):
    """A module of transformers has no output projection; its masks, of whole sequences, are made once."""

    def __init__(self, case, inner):
        super().__init__(inner)
        self.output, self.masks = nn.Linear(case["dim"], case["dim"]), None

    def attend(self, x):
        self.masks = self.masks or self.make_masks(*x.shape[:2])
        return self.output(self.inner(x, **self.masks)[0])

    def state_of(self, own):
        return {"output.weight": own.pop("output.weight"), "output.bias": own.pop("output.bias"),
                **take(own, query="query", key="key", value="value")}


class Longformer(WithOutput):
    """The first row is global, as in the package's model for classification."""

    def __init__(self, case, layer, exact):
        from transformers import LongformerConfig
        from transformers.models.longformer.modeling_longformer import LongformerSelfAttention
        config = LongformerConfig(hidden_size=case["dim"], num_attention_heads=case["heads"], num_hidden_layers=1, attention_window=[256],
                                  attention_probs_dropout_prob=0.0)
        super().__init__(case, LongformerSelfAttention(config, 0))

    def make_masks(self, batch, length):
        mask = torch.zeros(batch, length)
        mask[:, 0] = 1
        return {"attention_mask": mask, "is_index_masked": mask < 0, "is_index_global_attn": mask > 0, "is_global_attn": True}

    def state_of(self, own):
        return {**super().state_of(own), **take(own, query_global="global_query", key_global="global_key", value_global="global_value")}


def drawn_blocks(file, layer, block, random_blocks):
    """For each head the random blocks of each inner block, as `tapeformer attn --pattern` wrote them."""
    import h5py
    import numpy
    with h5py.File(file, "r") as source:
        pattern = source[f"encoder.layers.{layer}.attention/pattern"][:, ::block, ::block]
    inner = range(1, pattern.shape[1] - 1)
    layouts = [[[j for j in inner if head[i, j] and abs(i - j) > 1] for i in inner] for head in pattern]
    if any(len(row) != random_blocks for rows in layouts for row in rows):
        sys.exit(f"{file}: expected {random_blocks} random blocks a block")
    return numpy.array(layouts)


class BigBird(WithOutput):
    def __init__(self, case, layer, exact):
        from transformers import BigBirdConfig
        from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention
        config = BigBirdConfig(hidden_size=case["dim"], num_attention_heads=case["heads"], num_hidden_layers=1, block_size=64, num_random_blocks=3,
                               max_position_embeddings=case["length"])
        super().__init__(case, BigBirdBlockSparseAttention(config, seed=layer))
        if exact:
            of_heads = itertools.cycle(drawn_blocks(case["pattern"], layer, 64, 3))
            self.inner._bigbird_block_rand_mask = lambda *_, **__: next(of_heads)

    def make_masks(self, batch, length):
        from transformers import BigBirdModel
        blocked, band, rows, columns = BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(batch, length), 64)
        return {"band_mask": band, "from_mask": rows, "to_mask": columns, "from_blocked_mask": blocked, "to_blocked_mask": blocked}


def sinkhorn(case, layer, exact):
    """With the choices of the package's SinkhornTransformer."""
    from sinkhorn_transformer.sinkhorn_transformer import SinkhornSelfAttention
    return Package(SinkhornSelfAttention(case["dim"], 128, case["length"], heads=case["heads"], non_permutative=False))


def reformer(case, layer, exact):
    from reformer_pytorch import LSHSelfAttention
    return Package(LSHSelfAttention(case["dim"], heads=case["heads"], bucket_size=64, n_hashes=4))


class Routing(Package):
    """Centroids move once a step, as the package's hook has it."""

    def __init__(self, case, layer, exact):
        from routing_transformer.routing_transformer import SelfAttention
        super().__init__(SelfAttention(case["dim"], case["layers"], case["length"], case["heads"], 0, 128))

    def attend(self, x):
        out, self.auxiliary = self.inner(x)
        return out

    def after_backward(self):
        self.inner.global_attn.kmeans.update()


def local(case, layer, exact):
    from local_attention import LocalAttention
    attention = LocalAttention(128, look_backward=1, look_forward=1, use_rotary_pos_emb=False)
    return HeadAttention(case, lambda q, k, v, mask: attention(q, k, v))


def written_out(attend):
    return lambda case, layer, exact: HeadAttention(case, attend)


ATTENTIONS = {"full_materialised": written_out(attend_materialised), "full_sdpa": written_out(attend_full), "linear": written_out(attend_linear),
              "local": local, "sinkhorn": sinkhorn, "reformer": reformer, "performer": Performer, "longformer": Longformer, "linformer": Linformer,
              "bigbird": BigBird, "nystrom": Nystrom, "efficient": Efficient, "routing": Routing}


def parameters(model, checkpoint):
    """How many both sides have in their attentions and in the rest."""
    import h5py
    with h5py.File(checkpoint, "r") as file:
        sizes = {"here": [(".attention." in name, value.size) for name, value in file["model"].items()],
                 "package": [(".attention." in name, value.numel()) for name, value in model.named_parameters()]}
    return {side: {"attention": sum(n for inside, n in of_side if inside), "rest": sum(n for inside, n in of_side if not inside)}
            for side, of_side in sizes.items()}


def run(case, steps, warmup, dropout, checkpoint):
    torch.manual_seed(1)
    exact = checkpoint is not None
    model = Classifier(case, dropout, lambda layer: ATTENTIONS[case["package"]](case, layer, exact))
    if checkpoint:
        load(model, checkpoint)
    found = train(case, model, steps, warmup)
    if not all(math.isfinite(value) for step in found["trace"] for value in step.values()):
        sys.exit(f"{case['package']}: a loss or a gradient is not finite: {json.dumps(found['trace'])}")
    return dict(found, parameters=parameters(model, checkpoint)) if checkpoint else found


if __name__ == "__main__":
    answer(parser_of(__doc__).parse_args(), run)
