"""The memory model that playbooks name `paged`: what one vLLM server on CPUs needs, by part. Pure; bytes.

Everything in here follows the engine's sources (0.21 and 0.32); what no source tells, and changes with the
version, is the playbook's `overheads`.
"""
