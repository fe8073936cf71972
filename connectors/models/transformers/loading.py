"""Loading of transformers models from a folder or the hub."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.interfaces.errors import FinalError
from connectors.interfaces.threads import computes_bfloat16, supports_bfloat16
from connectors.models.transformers import smollm2
from connectors.models.transformers.hub_files import (
    LOADING,
    OLDER_WEIGHTS,
    SETTINGS,
    WEIGHTS,
    digest_of,
    download,
    files_of,
    weights_of,
)
from connectors.models.transformers.model_checks import (
    NEEDS_CODE,
    Purpose,
    device_name,
    find_model,
    first_line,
    open_device,
    open_settings,
    require_weights,
)
from connectors.models.transformers.options import HfOptions

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

_SETTINGS = (".json", ".txt", ".model", ".jinja")
_PATTERNS = [*SETTINGS, WEIGHTS]
_RETAINED = (
    "bos_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
)
_UNKNOWN_BYTES = 2**20
EMBEDDED = Path(__file__).parents[2] / "data" / "small_gpt"
"""The model `embedded`: a small GPT-2 of this project (connectors/data/README.md)."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded model.

    `eos`: tokens that end a completion. `context`: maximum tokens of prompt and completion, None if unlimited.
    `token_bytes`: size of one token of one row in the cache of keys and values. `shares_prompts`: attention can read
    the keys and values of a prompt once for all rows that continue it.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    device: torch.device
    seq2seq: bool
    eos: tuple[int, ...]
    pad: int
    context: int | None
    token_bytes: int
    shares_prompts: bool = False


def model_folder(name: str, model: str, options: HfOptions, home: Path | None = None) -> Path:
    """Return the folder of a model, downloaded unless the hub's local cache has it.

    The bundled models are below the state folder `home`.
    Raises TemporaryError if the hub is unreachable, FinalError if it does not have the model or refuses access.
    """
    if model in smollm2.CONTENT:
        assert home is not None
        return smollm2.converted(home, model)
    folder = Path(model).expanduser()
    if model == "embedded":
        folder = EMBEDDED
    if not folder.is_dir():
        where = (f"Model '{name}'", model, options.revision)
        folder = download(*where, allow_patterns=_PATTERNS)
        # Only then: most repositories have both forms, and each is gigabytes.
        if not weights_of(folder):
            folder = download(*where, allow_patterns=[*_PATTERNS, OLDER_WEIGHTS])
    require_weights(f"Model '{name}'", folder, FinalError)
    return folder


def check_files(name: str, model: str, options: HfOptions, purpose: Purpose) -> None:
    """Check a model's files and device before a run; ConfigError. Loads no weights."""
    where = f"Model '{name}'"
    if options.device != "auto":
        open_device(where, options.device)
    if model == "embedded":
        return
    if model in smollm2.CONTENT:
        smollm2.check(where)
        return
    folder = find_model(where, str(Path(model).expanduser()), options.revision, purpose)
    if folder is not None:
        require_weights(where, folder)
        open_settings(where, folder, purpose)


def content_of(folder: Path | dict[str, str]) -> dict[str, str]:
    """Return the identity of a folder's content: hub commit, or digests of all files; a bundled model's is recorded.

    The digests cover weights and settings. A snapshot in the hub's cache has its commit as folder name, which avoids
    hashing gigabytes.
    """
    library = f"{version('transformers').split('.')[0]}"
    if isinstance(folder, dict):
        return folder | {"transformers": library}
    if folder.parent.name == "snapshots" and len(folder.name) == 40:
        return {"model": folder.parent.parent.name, "commit": folder.name, "transformers": library}
    weights = weights_of(folder)
    settings = files_of(folder, _SETTINGS)
    return {
        "weights": digest_of(weights, folder),
        "settings": digest_of(settings, folder),
        "transformers": library,
    }


def load(name: str, folder: Path, options: HfOptions, dtype: str, fills: bool) -> Loaded:
    """Load tokenizer and weights; FinalError with the reason if that fails.

    `fills`: load a masked language model.
    """
    with LOADING:
        device = open_device(f"Model '{name}'", options.device, FinalError)
        try:
            model, tokenizer = _read(folder, dtype, device, fills)
        except Exception as error:
            # Weight readers raise many kinds of errors.
            why = _explain_load_error(error)
            raise FinalError(f"Model '{name}' cannot be loaded from {folder}: {why}") from error
        if fills:
            eos: tuple[int, ...] = ()
            pad = int(tokenizer.pad_token_id or 0)
        else:
            eos, pad = _reset_generation(model, tokenizer)
        config = model.config
        shares = False
        if not fills and not config.is_encoder_decoder:
            # Only here: the module needs the library, which is imported with the first model.
            from connectors.models.transformers.attention import share_prompts

            shares = share_prompts(model)
    return Loaded(
        model,
        tokenizer,
        device,
        config.is_encoder_decoder,
        eos,
        pad,
        _context(config),
        _bytes(model),
        shares,
    )


def _read(
    folder: Path, dtype: str, device: torch.device, fills: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForMaskedLM,
        AutoModelForSeq2SeqLM,
        AutoTokenizer,
    )

    common = {"local_files_only": True, "trust_remote_code": False}
    config = AutoConfig.from_pretrained(folder, **common)
    tokenizer = AutoTokenizer.from_pretrained(folder, **common)
    family = AutoModelForCausalLM
    if fills:
        family = AutoModelForMaskedLM
    elif config.is_encoder_decoder:
        family = AutoModelForSeq2SeqLM
    # Explicitly: a pickle is read only where no safetensors exist.
    safe = bool(files_of(folder, (".safetensors",)))
    model = family.from_pretrained(folder, dtype=dtype, use_safetensors=safe, **common)
    return model.to(device).eval(), tokenizer


def _explain_load_error(error: Exception) -> str:
    if "trust_remote_code" in str(error):
        return f"it {NEEDS_CODE}"
    return f"{type(error).__name__}: {first_line(error)}"


def dtype_of(options: HfOptions, model: str, home: Path | None = None) -> str:
    """Return the precision: the option, or by default the device's.

    Default: bfloat16 or float16 on an accelerator, float32 on a CPU. Bundled models: bfloat16 on a CPU that is faster
    in it, or whose state folder `home` has texts of an earlier version in it.
    """
    import torch

    if options.dtype != "auto":
        return options.dtype
    device = device_name(options.device).split(":")[0]
    # Emulated bfloat16 is slow, and older accelerators compute in float16.
    if device == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return "bfloat16"
    if device in ("cuda", "mps"):
        return "float16"
    if model in smollm2.CONTENT:
        if computes_bfloat16():
            return "bfloat16"
        if supports_bfloat16() and smollm2.keeps_bfloat16(home, model):
            return "bfloat16"
    return "float32"


def _reset_generation(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> tuple[tuple[int, ...], int]:
    """Replace the model's generation settings; return its end and padding tokens.

    Only the special tokens are retained. Many models have their own temperature or penalty. Others have do_sample:
    false, which makes all completions of a prompt equal at any temperature.
    """
    from transformers import GenerationConfig

    original = model.generation_config
    end_tokens = original.eos_token_id
    if not isinstance(end_tokens, list):
        end_tokens = [end_tokens]
    # The tokenizer's as well: chat models end their turn with a token that the generation settings often lack.
    eos = tuple(
        sorted({int(end) for end in (*end_tokens, tokenizer.eos_token_id) if end is not None})
    )
    candidates = (original.pad_token_id, tokenizer.pad_token_id, *eos, 0)
    pad = next(int(token) for token in candidates if token is not None)
    model.generation_config = GenerationConfig(
        eos_token_id=list(eos) or None,
        pad_token_id=pad,
        do_sample=False,
        **{name: getattr(original, name) for name in _RETAINED},
    )
    return eos, pad


def _context(config: PretrainedConfig) -> int | None:
    length = getattr(config.get_text_config(), "max_position_embeddings", None)
    if not length:
        return None
    return int(length)


def _bytes(model: PreTrainedModel) -> int:
    config = model.config.get_text_config()
    heads = getattr(config, "num_attention_heads", None)
    layers = getattr(config, "num_hidden_layers", None)
    hidden = getattr(config, "hidden_size", None)
    if not (heads and layers and hidden):
        return _UNKNOWN_BYTES
    width = getattr(config, "head_dim", None) or hidden // heads
    # Grouped-query attention stores fewer pairs of keys and values than it has heads.
    pairs = getattr(config, "num_key_value_heads", None) or heads
    return int(2 * layers * pairs * width * model.dtype.itemsize)
