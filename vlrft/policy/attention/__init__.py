"""Attention in parts: each part returns its output and the log-sum-exp of its scores, with which parts are joined exactly.

`kernel` has the contract of a kernel, `choice` picks one by device and dtype, `cpu_flash`, `cuda_flash`,
`cuda_efficient` and `plain` are the kernels, `join` joins two parts.
"""
