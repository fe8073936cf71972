"""Tiny language models with random weights and tokenizers trained on a few sentences, saved as folders.

A module that needs them writes `from tests.support.models.tiny import tiny_models` and uses the fixture.
"""

from pathlib import Path
from typing import Any

import pytest

SENTENCES = (
    "Write one positive text. Write one negative text. Number one, number two, number three.",
    "The film was far too long, and the acting was wooden from the first scene to the last.",
    "A warm and funny story about two friends who open a small cafe by the sea.",
    "My card has not arrived yet, and nobody answers the phone. What can I do now?",
    "I was charged twice for the same transfer last week. Please send the money back.",
    "Good morning! The room was clean, the breakfast excellent, the staff friendly.",
)
CHAT = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<pad>", "<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>"]


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of a GPT-2 (base), a Llama (chat) and a T5 (sequence to sequence)."""
    home = tmp_path_factory.mktemp("tiny")
    return {
        "gpt2": save_gpt2(home / "gpt2"),
        "llama": save_llama(home / "llama"),
        "t5": save_t5(home / "t5"),
    }


def tokenizer(chat: bool = False, pad: bool = True):
    """Return the tokenizer of a tiny model: a byte-level BPE, trained here and now."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator(SENTENCES, trainer)
    ends = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>" if pad else None}
    made = PreTrainedTokenizerFast(tokenizer_object=inner, **ends)
    if chat:
        made.chat_template = CHAT
    return made


def settings(words, *roles: str, **sizes: int | str) -> dict[str, Any]:
    """Return the arguments of a configuration: vocabulary, special tokens by role, sizes."""
    return {
        "vocab_size": len(words),
        **{f"{role}_token_id": getattr(words, f"{role}_token_id") for role in roles},
    } | sizes


ENCODER = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
ENCODER |= {"max_position_embeddings": 66}


def save_gpt2(folder: Path) -> Path:
    """A base model without a padding token, as GPT-2 has none."""
    from transformers import GPT2Config, GPT2LMHeadModel

    words = tokenizer(pad=False)
    config = GPT2Config(
        **settings(words, "bos", "eos", n_positions=256, n_embd=32, n_layer=2, n_head=4)
    )
    return save(folder, GPT2LMHeadModel, config, words)


def save_llama(folder: Path) -> Path:
    """A chat model: it has a template."""
    from transformers import LlamaConfig, LlamaForCausalLM

    words = tokenizer(chat=True)
    sizes = ENCODER | {
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "max_position_embeddings": 512,
    }
    config = LlamaConfig(**settings(words, "bos", "eos", "pad", **sizes), num_key_value_heads=2)
    return save(folder, LlamaForCausalLM, config, words)


def save_t5(folder: Path) -> Path:
    """A sequence-to-sequence model."""
    from transformers import T5Config, T5ForConditionalGeneration

    words = tokenizer()
    sizes = {
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 64,
        "num_layers": 2,
        "num_heads": 4,
        "feed_forward_proj": "gated-gelu",
    }
    config = T5Config(
        **settings(words, "eos", "pad", **sizes), decoder_start_token_id=words.pad_token_id
    )
    return save(folder, T5ForConditionalGeneration, config, words)


def save_roberta(folder: Path) -> Path:
    """A masked model, as students are fine-tuned from."""
    from transformers import RobertaConfig, RobertaModel

    words = tokenizer()
    return save(
        folder,
        RobertaModel,
        RobertaConfig(**settings(words, "bos", "eos", "pad", **ENCODER)),
        words,
    )


def save_mpnet(folder: Path) -> Path:
    """A sentence encoder of the parts of all-mpnet-base-v2: MPNet, mean of tokens, length one."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer
    from transformers import MPNetConfig, MPNetModel

    words = tokenizer()
    config = MPNetConfig(**settings(words, "bos", "eos", "pad", **ENCODER))
    inner = Transformer(str(save(folder / "inner", MPNetModel, config, words)), max_seq_length=64)
    parts = [inner, Pooling(inner.get_word_embedding_dimension(), pooling_mode="mean"), Normalize()]
    SentenceTransformer(modules=parts, device="cpu").save(str(folder / "whole"))
    return folder / "whole"


def save_bert(folder: Path) -> Path:
    """A plain encoder without a pooling layer of its own, as BioBERT on the hub."""
    from transformers import BertConfig, BertModel

    words = tokenizer()
    return save(folder, BertModel, BertConfig(**settings(words, "pad", **ENCODER)), words)


def save(folder: Path, family, config, words) -> Path:
    """Save a model with random weights and its tokenizer."""
    import torch

    # Weights only: the state of the process' generator is put back.
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = family(config)
        # Fresh weights make all tokens equally likely; larger ones give a model with preferences.
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(4)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
