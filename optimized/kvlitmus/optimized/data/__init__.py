"""The data plane: pools of KV on the device and on the host, and the copies between them.

``shape`` says what one page holds, ``layout`` where in a pool its bytes lie, ``pools`` has the memory, ``copies`` and
``kernels`` move pages, ``transfer`` puts that behind the state machines, ``pages`` gives storage a page as bytes.

Which engine moves what is declared in ``copies``, or found out by trying (``measured``): a kernel (``jit`` has its
source, ``loaded`` loads and starts it), the copy engine (``driver``), or both in two steps (``staged``).  ``lane`` is
one direction of transfers on CUDA, with its page ``tables`` and ``flags`` of layers that are there; ``tickets`` and
``threads`` are what a transfer is where there are no streams.  ``numa`` puts host memory near the device.

Nothing of this has run on a GPU yet; ``benchmarks/gpu.py`` is made for that.  Times and rates of CUDA that these
modules speak of are estimates, or figures that others have published.

Everything treats KV as bytes: a copy never looks at a number, so one path serves bf16, fp16, fp8 and fp32, and any
row size.  This package imports torch; Triton is imported only where a kernel is launched or compiled.
"""
