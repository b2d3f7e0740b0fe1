"""From traced halves to ONNX graphs, in operations that ONNX has: a factorisation is none of them."""

# mypy: disable-error-code="untyped-decorator"
# The functions marked `script` are not run by Python: ONNX functions are made from their text.

import onnx_ir as ir
import torch
from onnx_ir.passes.common import InlinePass
from onnxscript import FLOAT, script
from onnxscript import opset18 as op
from onnxscript.values import Opset

from dgpnet.export.tracing import Traced, quietly

#: The version of ONNX's operators: the newest that PyTorch's exporter has a name for.
OPSET = 23
#: Rows that the factorisation adds at a time.
BLOCK = 64

_OURS = Opset("dgpnet", 1)


@script(_OURS, default_opset=op)
def bordered(w: FLOAT[...], cross: FLOAT[...], corner: FLOAT[...]) -> FLOAT[...]:
    """[[W, 0], [−corner · cross · W, corner]]: the whitener of a matrix with more rows and columns, see `grow`."""
    upper = op.Concat(w, op.Transpose(cross * 0.0, perm=[1, 0]), axis=1)
    lower = op.Concat(op.Neg(op.MatMul(corner, op.MatMul(cross, w))), corner, axis=1)
    return op.Concat(upper, lower, axis=0)


@script(_OURS, default_opset=op)
def whitener_by_rows(a: FLOAT[...]) -> FLOAT[...]:
    """W = L⁻¹ of a small a: (n, n), a row at a time."""
    w = op.Reciprocal(op.Sqrt(a[0:1, 0:1]))
    steps = op.Squeeze(op.Shape(a, start=0, end=1)) - 1
    for i in range(steps):
        here = i + 1
        cross = op.MatMul(a[here : here + 1, 0:here], op.Transpose(w, perm=[1, 0]))
        rest = a[here : here + 1, here : here + 1] - op.MatMul(cross, op.Transpose(cross, perm=[1, 0]))
        w = bordered(w, cross, op.Reciprocal(op.Sqrt(rest)))
    return w


@script(_OURS, default_opset=op)
def whitener_by_blocks(gram: FLOAT[...]) -> FLOAT[...]:
    """W = L⁻¹ of gram: (1, S, S), BLOCK rows at a time: all but small blocks is matrix products, 4/3 S³ operations."""
    a = op.Squeeze(gram, [0])
    w = whitener_by_rows(a[0:BLOCK, 0:BLOCK])
    steps = (op.Squeeze(op.Shape(a, start=0, end=1)) - 1) / BLOCK
    for i in range(steps):
        here = (i + 1) * BLOCK
        cross = op.MatMul(a[here : here + BLOCK, 0:here], op.Transpose(w, perm=[1, 0]))
        rest = a[here : here + BLOCK, here : here + BLOCK] - op.MatMul(cross, op.Transpose(cross, perm=[1, 0]))
        w = bordered(w, cross, whitener_by_rows(rest))
    return op.Unsqueeze(w, [0])


def graph_of(traced: Traced) -> ir.Model:
    """The ONNX graph of a traced half, with the names of what goes in and comes out."""
    with quietly():
        program = torch.onnx.export(
            traced.program,
            dynamo=True,
            opset_version=OPSET,
            input_names=list(traced.inputs),
            output_names=list(traced.outputs),
            custom_translation_table={torch.ops.dgpnet.whitener.default: whitener_by_blocks},
            verbose=False,
        )
    assert program is not None
    model = _inlined(program.model)
    for values, shapes in ((model.graph.inputs, traced.inputs), (model.graph.outputs, traced.outputs)):
        for value, shape in zip(values, shapes.values(), strict=True):
            value.shape = ir.Shape(shape)
    return model


def _inlined(model: ir.Model) -> ir.Model:
    """The model without calls of functions of ours, which not every runtime knows."""
    for function in (bordered, whitener_by_rows):
        found = ir.from_proto(function.to_function_proto())
        found.opset_imports.update(model.opset_imports)
        model.functions[found.identifier()] = found
    model.opset_imports[_OURS.domain] = _OURS.version
    InlinePass()(model)
    model.functions.clear()
    del model.opset_imports[_OURS.domain]
    return model
