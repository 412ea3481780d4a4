"""The model that is trained: loaded or built, all of its weights or low-rank adapters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from vlrft.config.idle import refuse_idle
from vlrft.config.strict import strict
from vlrft.schema.ranges import Positive, PositiveFloat, Range

# A family is a file of policy/families; the files are listed here, not imported.
_FAMILY_FILES = (Path(__file__).parents[1] / "policy" / "families").glob("[!_]*.py")
if TYPE_CHECKING:
    FamilyName = str
else:
    FamilyName = Literal[tuple(sorted(file.stem for file in _FAMILY_FILES))]


Dtype = Literal["auto", "float32", "bfloat16", "float64"]
Width = Annotated[int, Range(ge=1, le=16_384)]
Layers = Annotated[int, Range(ge=1, le=256)]
Pixels = Annotated[int, Range(ge=1, le=2**24)]  # small images are enlarged to as many

Quantization = Literal["none", "nf4"]


@strict
class BuildConfig:
    """A small model with random weights, built from these sizes: runs without a download."""

    family: FamilyName = "qwen2_vl"
    """Model family, with its architecture, chat template and image processor."""
    hidden_size: Width = 128
    """Width of the language model; a multiple of `heads`."""
    layers: Layers = 3
    """Decoder layers."""
    heads: Positive = 4
    """Attention heads of a decoder layer."""
    kv_heads: Positive = 2
    """Key and value heads of a decoder layer; `heads` is a multiple of it."""
    intermediate_size: Width = 256
    """Width of the decoder's MLPs."""
    vision_width: Width = 96
    """Width of the vision model; not used by text-only families."""
    vision_layers: Layers = 3
    """Layers of the vision model."""
    vision_heads: Positive = 4
    """Attention heads of a vision layer."""
    vocab_size: Annotated[int, Range(ge=256, le=1_000_000)] = 400
    """Largest size of the vocabulary: a byte-level BPE trained on the first task's text, with one token per digit."""
    init_scale: PositiveFloat = 4.0
    """Factor on every initial weight matrix but the patch embedding. Models this small start to learn at 4, a standard
    deviation of 0.08."""


@strict
class LoraConfig:
    """Low-rank adapters (LoRA, with peft); the weights of the model itself are frozen."""

    rank: Width = 16
    """Rank of each adapter."""
    alpha: Positive = 32
    """Scale: an adapter's output is multiplied by alpha / rank."""
    dropout: Annotated[float, Range(ge=0, lt=1)] = 0.0
    """Dropout on the adapters' inputs in the update."""
    target_modules: str | tuple[str, ...] = "all-linear"
    """Modules that get an adapter: `all-linear`, a regular expression, or a list of name endings such as `[q_proj, v_proj]`."""


@strict
class PolicyConfig:
    """The model that is trained. Give either `model` or `build`."""

    model: str | None = None
    """A model on the Hugging Face hub, or a folder with one, such as a checkpoint of a run."""
    build: BuildConfig | None = None
    """A small model that is built here, instead of `model`."""
    dtype: Dtype = "auto"
    """Type of the weights; auto: bfloat16 on a GPU that supports it, and for a `model` that is stored in bfloat16 on a CPU with
    units for it (AVX512-BF16, AMX); otherwise float32. A run's checkpoint that is evaluated has the type of its run."""
    tf32: bool | None = None
    """Products of float32 matrices on a GPU in TF32: on tensor cores, with 10 bits of mantissa. null: with weights in bfloat16,
    beside which the float32 products are those of adapters; not with float32 weights, whose results it changes. On a CPU it
    has no effect."""
    attention: Literal["sdpa", "eager", "flash_attention_2", "flex_attention"] = "sdpa"
    """Implementation of attention. sdpa: torch's own kernels, without a mask for packed rows. flash_attention_2 is used in the
    vision model, with sdpa in the decoder. flex_attention needs a GPU and a text model for which transformers has it; it too
    makes no mask. eager: plain products with a mask, whose memory grows with the square of a packed row's length."""
    activation_checkpointing: bool | None = None
    """Recompute each layer's activations in the backward pass: less memory, more time. null: with `model`, and not with
    `build`, whose models are small."""
    freeze: tuple[str, ...] = ()
    """Parameters that are not trained: `vision`, `projector`, `language`, or patterns of names such as `*.layers.0.*`."""
    lora: LoraConfig | None = None
    """Train new low-rank adapters instead of the weights."""
    adapter: str | None = None
    """A LoRA adapter whose training continues: a folder that peft wrote, the `adapter/` of a checkpoint, or a hub id. Its own
    settings give rank, alpha and modules. `model` may be left out where they name it. The reference policy is the model
    without the adapter."""
    quantization: Quantization | None = None
    """nf4: the linear layers of the decoder are held in 4 bits (QLoRA, with bitsandbytes) and adapters are trained on them;
    embeddings, head, norms and vision model stay in `dtype`. null: as the weights under `adapter` were held, else none."""
    min_pixels: Pixels | None = None
    """Smallest area of an image, and of a frame of a video; smaller ones are enlarged. null: as the model's processors have it."""
    max_pixels: Positive | None = None
    """Largest area of an image, and of a frame of a video; larger ones are reduced. null: as the model's processors have it."""
    max_prompt_pixels: Positive | None = None
    """Largest area of all images of a prompt together, and of those that an environment shows at once: each of n images has at
    most an n-th of it. null: each may have `max_pixels`, however many they are."""
    trust_remote_code: bool = False
    """Run model code that the hub's repository brings. It can do anything on this machine."""

    def __post_init__(self) -> None:
        low, high = self.min_pixels, self.max_pixels
        if low is not None and high is not None and low > high:
            raise ValueError(f"min_pixels {low}, more than max_pixels {high}")
        together = self.max_prompt_pixels
        if low is not None and together is not None and low > together:
            raise ValueError(f"min_pixels {low}, more than max_prompt_pixels {together}")
        if self.quantization not in (None, "none") and self.build is not None:
            raise ValueError(
                f"quantization {self.quantization} is for weights of a `model`; those of build are new"
            )
        if self.build is not None:
            beside = "build, which loads nothing"
            refuse_idle(self, "trust_remote_code", beside=beside, unless="model")
        if self.lora is not None and self.adapter is not None:
            raise ValueError(
                "give either lora, for new adapters, or adapter, which has rank, alpha and modules of its own"
            )

    @property
    def checkpoints_activations(self) -> bool:
        """Whether activations are recomputed in the backward pass."""
        if self.activation_checkpointing is None:
            return self.build is None
        return self.activation_checkpointing

    @property
    def has_adapters(self) -> bool:
        """Whether low-rank adapters are trained, new ones or those of `adapter`."""
        return self.lora is not None or self.adapter is not None
