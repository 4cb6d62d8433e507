"""GGUF files of any shape, filled with random blocks: what an engine's memory depends on, without a model.

In: a `Model`. Out: a file that llama-server loads and serves; what it says is noise. The data is one random
tile written over and over with small scales, so gigabytes take seconds and no number overflows.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

_TILE = 8 << 20


@dataclass(frozen=True)
class Model:
    """A model's shape. quant: type of the matrices; embedding tables are F16 as they are never rearranged.

    architecture: `llama`, `qwen3`, `qwen3moe`, `gemma3` (windows) or `qwen35` (every fourth layer attends).
    window: tokens of a sliding window, for gemma3. inner, state, groups: of linear layers, for qwen35.
    """

    name: str
    architecture: str
    layers: int
    embedding: int
    feed_forward: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int
    context: int = 131072
    quant: Type = Type.Q4_K
    table: Type = Type.F16
    window: int = 0
    inner: int = 0
    state: int = 128
    groups: int = 16
    experts: int = 0
    experts_used: int = 0
    tied: bool = False


def write(model: Model, path: Path) -> None:
    """Write the model to `path`."""
    writer = gguf.GGUFWriter(path, model.architecture)
    _metadata(writer, model)
    _vocabulary(writer, model)
    kinds = []
    for name, shape, kind in _tensors(model):
        size = _bytes_of(shape, kind)
        writer.add_tensor_info(name, list(reversed(shape)), np.dtype(np.float32), size, raw_dtype=kind)
        kinds.append((kind, size))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    with path.open("r+b") as file:
        file.seek(0, 2)
        _pad(file)
        for kind, size in kinds:
            tile = _tile(kind)
            for start in range(0, size, len(tile)):
                file.write(memoryview(tile)[: min(len(tile), size - start)])
            _pad(file)


def _pad(file: object) -> None:
    at = file.tell()  # type: ignore[attr-defined]
    file.write(bytes(-at % gguf.GGUF_DEFAULT_ALIGNMENT))  # type: ignore[attr-defined]


def _metadata(writer: gguf.GGUFWriter, model: Model) -> None:
    writer.add_name(model.name)
    writer.add_context_length(model.context)
    writer.add_embedding_length(model.embedding)
    writer.add_block_count(model.layers)
    writer.add_feed_forward_length(model.feed_forward)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.kv_heads)
    writer.add_key_length(model.head)
    writer.add_value_length(model.head)
    writer.add_rope_dimension_count(model.head)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(model.vocabulary)
    if model.window:
        writer.add_sliding_window(model.window)
    if model.experts:
        writer.add_expert_count(model.experts)
        writer.add_expert_used_count(model.experts_used)
        writer.add_expert_feed_forward_length(model.feed_forward)
    if model.inner:
        writer.add_ssm_conv_kernel(4)
        writer.add_ssm_inner_size(model.inner)
        writer.add_ssm_state_size(model.state)
        writer.add_ssm_time_step_rank(model.inner // model.state)
        writer.add_ssm_group_count(model.groups)
        writer.add_rope_dimension_sections([model.head // 8, model.head // 8, 0, 0])


def _vocabulary(writer: gguf.GGUFWriter, model: Model) -> None:
    """Letters, then pairs of what there is; ASCII, so that answers are texts. Gemma has no merges."""
    letters = [chr(code) for code in range(33, 127)]
    tokens, merges = list(letters), []
    known = set(tokens)
    for left, right in itertools.product(range(1, 10_000), range(500)):
        if len(tokens) >= model.vocabulary - 1:
            break
        first, second = tokens[left % len(tokens)], tokens[right % len(tokens)]
        if first + second not in known:
            known.add(first + second)
            tokens.append(first + second)
            merges.append(f"{first} {second}")
    tokens.append("<end>")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (len(tokens) - 1) + [3])
    if model.architecture == "gemma3":
        writer.add_tokenizer_model("llama")
        writer.add_token_scores([-float(rank) for rank in range(len(tokens))])
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("default")
        writer.add_token_merges(merges)
    writer.add_eos_token_id(len(tokens) - 1)
    writer.add_add_bos_token(False)


_Tensor = tuple[str, tuple[int, ...], Type]


def _tensors(model: Model) -> Iterator[_Tensor]:
    """Name, dimensions (innermost first) and type of every tensor."""
    width, f32 = model.embedding, Type.F32
    yield "token_embd.weight", (width, model.vocabulary), model.table
    yield "output_norm.weight", (width,), f32
    if not model.tied:
        yield "output.weight", (width, model.vocabulary), model.quant
    for layer in range(model.layers):
        block = f"blk.{layer}."
        linear = bool(model.inner) and (layer + 1) % 4 != 0
        for name, shape, kind in (*(_linear(model) if linear else _attention(model)), *_feed_forward(model)):
            yield block + name, shape, kind


def _attention(model: Model) -> Iterator[_Tensor]:
    width, heads, kv = model.embedding, model.heads * model.head, model.kv_heads * model.head
    gate = 2 if model.inner else 1  # these queries carry a gate
    yield "attn_norm.weight", (width,), Type.F32
    yield "attn_q.weight", (width, heads * gate), model.quant
    yield "attn_k.weight", (width, kv), model.quant
    yield "attn_v.weight", (width, kv), model.quant
    yield "attn_output.weight", (heads, width), model.quant
    if model.architecture != "llama":
        yield "attn_q_norm.weight", (model.head,), Type.F32
        yield "attn_k_norm.weight", (model.head,), Type.F32


def _linear(model: Model) -> Iterator[_Tensor]:
    width, heads = model.embedding, model.inner // model.state
    convolved = model.inner + 2 * model.groups * model.state
    yield "attn_norm.weight", (width,), Type.F32
    yield "attn_qkv.weight", (width, convolved), model.quant
    yield "attn_gate.weight", (width, model.inner), model.quant
    yield "ssm_conv1d.weight", (4, convolved), Type.F32
    yield "ssm_dt.bias", (heads,), Type.F32
    yield "ssm_a", (heads,), Type.F32
    yield "ssm_beta.weight", (width, heads), model.quant
    yield "ssm_alpha.weight", (width, heads), model.quant
    yield "ssm_norm.weight", (model.state,), Type.F32
    yield "ssm_out.weight", (model.inner, width), model.quant


def _feed_forward(model: Model) -> Iterator[_Tensor]:
    width, wide = model.embedding, model.feed_forward
    if model.architecture == "gemma3":
        yield "post_attention_norm.weight", (width,), Type.F32
        yield "post_ffw_norm.weight", (width,), Type.F32
    yield ("post_attention_norm.weight" if model.inner else "ffn_norm.weight"), (width,), Type.F32
    if model.experts:
        yield "ffn_gate_inp.weight", (width, model.experts), Type.F32
        yield "ffn_gate_exps.weight", (width, wide, model.experts), model.quant
        yield "ffn_up_exps.weight", (width, wide, model.experts), model.quant
        yield "ffn_down_exps.weight", (wide, width, model.experts), model.quant
    else:
        yield "ffn_gate.weight", (width, wide), model.quant
        yield "ffn_up.weight", (width, wide), model.quant
        yield "ffn_down.weight", (wide, width), model.quant


def _bytes_of(shape: tuple[int, ...], kind: Type) -> int:
    block, size = gguf.GGML_QUANT_SIZES[kind]
    rows = int(np.prod(shape[1:]))
    return rows * (shape[0] // block) * size


@functools.cache
def _tile(kind: Type) -> bytes:
    """Whole blocks of random values around zero."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    random = np.random.default_rng(0)
    count = _TILE // size
    if kind in (Type.F32, Type.F16, Type.BF16):
        values = random.standard_normal(count, dtype=np.float32) * 0.02
        if kind is Type.F32:
            return (values + 1).tobytes()  # norms
        if kind is Type.F16:
            return values.astype(np.float16).tobytes()
        return (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    scale = np.frombuffer(np.float16(2e-4 if block == 256 else 5e-3).tobytes(), np.uint8)
    for place in _SCALES[kind]:
        blocks[:, place : place + 2] = scale
    return blocks.tobytes()


# Where the f16 scales stand in a block.
_SCALES = {Type.Q4_0: (0,), Type.Q8_0: (0,), Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,)}
