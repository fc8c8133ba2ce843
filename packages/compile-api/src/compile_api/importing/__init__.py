"""Deferred imports: modules that torch imports in passing are imported when they are used.  One page on how, and the
one switch.

**Why.**  torch's tracing toolbox imports torch's own compiler to read a few settings of it, sympy to ask whether a
number is one of its expressions, and distributed tensors to ask whether a tensor is one.  A plain program uses none of
these, and importing them takes longer than capturing, generating and building a kernel.

**What is put off**, and what is answered in its place as long as nobody uses it:

=====================================  =======================================================  ==============
package                                answered to torch's functions                            in
=====================================  =======================================================  ==============
``torch._dynamo``                      markers, its wrapper; its settings are imported alone    ``peer``
``torch.fx…symbolic_shapes``, sympy    questions about sizes: those of plain numbers            ``sizes``
``torch.utils._sympy.functions``       the larger of two numbers                                ``sizes``
``torch._dynamo.source``               origins of symbols                                       ``sources``
``torch._inductor``                    which of its lines made a frame: none                    ``sources``
``torch.distributed.tensor``           the class that no tensor is of                           ``tensors``
``torch.fx.experimental.validator``    whether it is switched on                                ``validation``
=====================================  =======================================================  ==============

**How.**  There is one mechanism, ``deferred.defer``, and it knows none of these.  It puts a module without contents
under the package's name into ``sys.modules``, with the package's own spec.  From then on:

1. Who asks it for an attribute that has an answer gets the answer, if a function of torch's asks (which is told by the
   caller's frame) or if the answer is given openly.  An answer that whoever asks may keep, as what is given openly and
   the classes that torch keeps, hands over to the genuine thing once there is one.
2. Who asks for anything else, or imports a submodule that is not listed as light, or reloads or inspects the package,
   has its ``__init__`` run: in the same module object, under Python's own lock for it.  Other threads wait.
3. Then it is a module like any other, of the plain type, and nothing of ours is between it and who uses it.  An
   ``__init__`` that fails leaves everything as if nothing had been asked.

A package that a program imported before us is left as it is.

**To put off another one**: a module here with its answers and a ``put_off``, and a line below.  What torch does with
it goes into ``tests/test_importing.py``, which runs the same programs with and without all this.  To do without: take
out the one line that calls ``put_off_imports``.
"""

from compile_api.importing import peer, sizes, sources, tensors, validation
from compile_api.importing.deferred import is_waiting


def put_off_imports() -> None:
    """The switch: to be called before anything imports torch's tracing toolbox."""
    peer.put_off()
    sizes.put_off()
    sources.put_off()  # which says something about sizes, too
    tensors.put_off()
    validation.put_off()


__all__ = ["is_waiting", "put_off_imports"]
