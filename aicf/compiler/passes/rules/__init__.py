"""Rewrite rules, one a file. Here alone ops are named."""

from __future__ import annotations

from aicf.compiler.passes.rule import Pass, Rule
from aicf.compiler.passes.rules.cast_of_cast import CastOfCast
from aicf.compiler.passes.rules.conv_bias import ConvBias
from aicf.compiler.passes.rules.conv_bn import ConvBatchNorm
from aicf.compiler.passes.rules.copy_into_product import CopyIntoProduct
from aicf.compiler.passes.rules.dense_permutes import DensePermutes
from aicf.compiler.passes.rules.double_negation import DoubleNegation
from aicf.compiler.passes.rules.log_of_softmax import LogOfSoftmax
from aicf.compiler.passes.rules.matmul_bias_act import MatmulBiasAct
from aicf.compiler.passes.rules.minus_negative import MinusNegative
from aicf.compiler.passes.rules.number_to_scale import NumberToScale
from aicf.compiler.passes.rules.plus_zero import PlusZero
from aicf.compiler.passes.rules.pool_before_relu import pooling
from aicf.compiler.passes.rules.product_bn import ProductBatchNorm
from aicf.compiler.passes.rules.product_plus import ProductPlus
from aicf.compiler.passes.rules.relu_twice import ReluTwice
from aicf.compiler.passes.rules.scale_into_product import ScaleIntoProduct
from aicf.compiler.passes.rules.scale_of_scale import ScaleOfScale
from aicf.compiler.passes.rules.scaled_operand import ScaledOperand
from aicf.compiler.passes.rules.shared_product import SharedProduct
from aicf.compiler.passes.rules.times_one import TimesOne


def simplifying() -> tuple[Rule, ...]:
    """Fewer nodes that compute the same numbers: `canonicalise` runs them until none fires."""
    return (
        DoubleNegation(), ReluTwice(), MinusNegative(), TimesOne(), PlusZero(), CastOfCast(),
        DensePermutes(), NumberToScale(), ScaleOfScale(),
    )  # fmt: skip


def fusing() -> tuple[Pass, ...]:
    """Several nodes as one, or on fewer numbers, in the order in which each finds what the one
    before leaves."""
    return (
        SharedProduct(), CopyIntoProduct(), ScaledOperand(), ScaleIntoProduct(), MatmulBiasAct(),
        ProductBatchNorm(), ProductPlus(), MatmulBiasAct(), ConvBias(), ConvBatchNorm(), pooling(),
        LogOfSoftmax(),
    )  # fmt: skip
