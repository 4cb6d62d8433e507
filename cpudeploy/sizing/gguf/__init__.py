"""The memory model that playbooks name `gguf`: what one llama.cpp server needs, by part. Pure; bytes.

Everything in here follows the engine's sources and was compared with what its log says.
"""
