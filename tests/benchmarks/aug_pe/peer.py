"""Run private-evolution as a user's program, with the arguments FOLDER RECORDS TEXTS ITERATIONS MODEL.

FOLDER receives its results. The library imports its parts for images and tables, which a run with texts does not use.
Those of their packages that are not installed are replaced by empty modules, which favours the peer.
"""

import importlib.abc
import importlib.machinery
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

UNUSED = (
    "blobfile", "cairosvg", "cleanfid", "clip", "diffusers", "fastchat", "fld", "gdown", "imageio",
    "improved_diffusion", "ot", "python_avatars", "tabicl", "tabpfn", "tiktoken", "torchvision", "wilds", "xgboost",
    "azure",
)  # fmt: skip
"""Packages that a text run of private-evolution imports and does not use."""

IN_FLIGHT = 16
MAX_TOKENS = 60
# All runs of the benchmark together stay below the cap that the ledger sets by itself.
EPSILON, DELTA = 1.0, 1e-5
LABEL, TEXT = "label", "text"


class AnyName(type):
    """A class that has every attribute: a class of the same kind."""

    def __getattr__(cls, name: str) -> "AnyName":
        return empty_class(name)


class Empty(ModuleType):
    """A module that has every attribute: a class without content."""

    def __getattr__(self, name: str) -> AnyName:
        return empty_class(name)


def empty_class(name: str) -> AnyName:
    """Return a class that can be inherited from, called with anything, and searched for any name."""
    if name.startswith("__"):
        raise AttributeError(name)
    return AnyName(name, (), {"__init__": lambda self, *_, **__: None})


class Unused(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Find the packages that are not used as empty modules."""

    def find_spec(self, fullname: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] in UNUSED:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module empty."""


class Bytes:
    """The tokenizer of a model of OpenAI is downloaded; without blanks it only encodes one character."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())


def prompts(folder: Path) -> tuple[Path, Path]:
    """Write the two prompts of Aug-PE: a new text, and a variation."""
    contents = {
        "new": f"Write a short message of a bank's customer about: {{{LABEL}}}.",
        "variation": f"Rephrase this message of a bank's customer about {{{LABEL}}}:\n{{sample}}",
    }
    for name, content in contents.items():
        message = {"message_template": [{"role": "user", "content": content}]}
        (folder / f"{name}.json").write_text(json.dumps(message), encoding="utf-8")
    return folder / "new.json", folder / "variation.json"


def replace_unused() -> None:
    """Let private-evolution be imported without the packages that a text run does not use."""
    # First, as it looks for some of the packages. Last in the list: a package that is installed is imported.
    import sentence_transformers  # noqa: F401

    sys.meta_path.append(Unused())


def check() -> None:
    """Import private-evolution."""
    replace_unused()
    import pe.api.text
    import pe.runner  # noqa: F401


def run(folder: Path, records: Path, texts: int, iterations: int, model: str) -> None:
    """Evolve texts by votes for the nearest one, as its example of Yelp with an API does, and save them."""
    replace_unused()
    import pandas as pd
    import tiktoken
    from pe.api.text import LLMAugPE
    from pe.callback import SaveCheckpoints, SaveTextToCSV
    from pe.data.text import TextCSV
    from pe.embedding.text import SentenceTransformer
    from pe.histogram import NearestNeighbors
    from pe.llm import OpenAILLM
    from pe.logger import CSVPrint
    from pe.population import PEPopulation
    from pe.runner import PE

    # As in each of its examples: otherwise assignments to slices of a table are refused or warned about.
    pd.options.mode.copy_on_write = True
    tiktoken.encoding_for_model = lambda model: Bytes()
    new, variation = prompts(folder)
    llm = OpenAILLM(progress_bar=False, num_threads=IN_FLIGHT, max_tokens=MAX_TOKENS, model="m")
    api = LLMAugPE(llm=llm, random_api_prompt_file=new, variation_api_prompt_file=variation)
    histogram = NearestNeighbors(
        embedding=SentenceTransformer(model=model), mode="L2", lookahead_degree=0, backend="sklearn"
    )
    population = PEPopulation(
        api=api, next_variation_api_fold=1, keep_selected=True, selection_mode="rank"
    )
    checkpoints = folder / "checkpoint"
    runner = PE(
        priv_data=TextCSV(records, label_columns=[LABEL], text_column=TEXT),
        population=population,
        histogram=histogram,
        callbacks=[SaveCheckpoints(checkpoints), SaveTextToCSV(folder / "texts")],
        loggers=[CSVPrint(folder)],
    )
    runner.run(
        num_samples_schedule=[texts] * (iterations + 1),
        delta=DELTA,
        epsilon=EPSILON,
        checkpoint_path=checkpoints,
    )


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
