"""The data plane: pools of KV on the device and on the host, and the copies between them.

``shape`` says what one page holds, ``layout`` where in a pool its bytes lie, ``pools`` has the memory, ``copies`` and
``kernels`` move pages, ``transfer`` puts that behind the state machines, ``pages`` gives storage a page as bytes.

Everything treats KV as bytes: a copy never looks at a number, so one path serves bf16, fp16, fp8 and fp32, and any
row size.  This package imports torch; Triton is imported only where a kernel is launched or compiled.
"""
