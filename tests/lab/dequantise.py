"""A GGUF file as a model in Hugging Face's form: run by the Python of vLLM's image, which has torch.

In: the GGUF file and the folder to make, as arguments. Out: config, tokenizer and bfloat16 safetensors there.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

source, target = map(Path, sys.argv[1:])
where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
model = AutoModelForCausalLM.from_pretrained(
    **where, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
)
model.save_pretrained(target)
AutoTokenizer.from_pretrained(**where).save_pretrained(target)
