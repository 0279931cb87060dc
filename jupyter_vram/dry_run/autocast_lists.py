"""Which operations autocast casts, and how: torch's own lists, by name and overload.

https://docs.pytorch.org/docs/stable/amp.html, "Autocast Op Reference", and
aten/src/ATen/autocast_mode.h (torch 2.13). A test holds them against the operations that have an
autocast kernel in the torch that runs.
"""

from __future__ import annotations

from typing import NamedTuple


class Lists(NamedTuple):
    """Operations of one device type."""

    lower: frozenset[str]
    """Inputs are cast to the lower precision."""
    float32: frozenset[str]
    """Inputs are cast to float32."""
    float32_result: frozenset[str]
    """The result is float32, unless a type is asked for."""
    widest: frozenset[str]
    """Inputs are cast to the widest type among them."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


CUDA = Lists(
    lower=_names(
        """
        _convolution _convolution.deprecated _scaled_dot_product_flash_attention
        _thnn_fused_gru_cell _thnn_fused_lstm_cell addbmm addmm addmv addr baddbmm bmm chain_matmul
        conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input conv_transpose3d.input
        convolution cudnn_convolution cudnn_convolution_transpose einsum gru_cell linalg_multi_dot
        linalg_vecdot linear lstm_cell matmul mm mv prelu rnn_relu_cell rnn_tanh_cell
        scaled_dot_product_attention
        """
    ),
    float32=_names(
        """
        _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d
        _upsample_nearest_exact2d _upsample_nearest_exact3d acos asin
        binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss cosine_similarity dist
        erfinv exp expm1 frobenius_norm.dim group_norm hinge_embedding_loss huber_loss kl_div
        l1_loss layer_norm log log10 log1p log2 logsumexp margin_ranking_loss mse_loss
        multi_margin_loss multilabel_margin_loss native_layer_norm nll_loss nll_loss2d norm.Scalar
        norm.ScalarOpt_dim nuclear_norm nuclear_norm.dim pdist poisson_nll_loss pow.Scalar
        pow.Tensor_Scalar pow.Tensor_Tensor reciprocal renorm rms_norm rsqrt sinh smooth_l1_loss
        soft_margin_loss softplus tan triplet_margin_loss upsample_bicubic2d upsample_bilinear2d
        upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d
        upsample_trilinear3d
        """
    ),
    float32_result=_names(
        """
        cumprod cumsum linalg_matrix_norm linalg_matrix_norm.str_ord linalg_vector_norm
        log_softmax.int prod prod.dim_int softmax.int sum sum.dim_IntList
        """
    ),
    widest=_names(
        """
        addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot vdot
        """
    ),
)

CPU = Lists(
    lower=_names(
        """
        _addmm_activation _convolution.deprecated _native_multi_head_attention addbmm addmm baddbmm
        bmm conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding conv_tbc
        conv_transpose1d conv_transpose2d.input conv_transpose3d.input linalg_vecdot linear matmul
        mkldnn_rnn_layer mm prelu scaled_dot_product_attention
        """
    ),
    float32=_names(
        """
        adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy
        binary_cross_entropy_with_logits cdist cosine_embedding_loss cross_entropy_loss
        ctc_loss.IntList ctc_loss.Tensor fractional_max_pool2d fractional_max_pool3d grid_sampler
        grid_sampler_2d grid_sampler_3d hinge_embedding_loss huber_loss kl_div l1_loss
        margin_ranking_loss max_pool3d max_unpool2d max_unpool3d mse_loss multi_margin_loss
        multilabel_margin_loss multilabel_margin_loss_forward nanquantile nanquantile.scalar
        nll_loss nll_loss2d poisson_nll_loss polar prod prod.dim_int quantile quantile.scalar
        reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d replication_pad3d
        smooth_l1_loss soft_margin_loss stft stft.center trace triplet_margin_loss view_as_complex
        """
    ),
    float32_result=frozenset(),
    widest=_names(
        """
        cat index_copy stack
        """
    ),
)
"""Without those of linear algebra and Fourier transforms, which are float32 as well."""
