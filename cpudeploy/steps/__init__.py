"""What each step of a playbook asks, wants and would do: pure, one file a step.

A step never sees a connection; it gets a `HostContext` and answers with `Question`s before the probe
and `Change`s after it. The names a playbook may use are a closed set, in the playbook's schema.
"""
