"""Requests are those that the vendors' own clients send: method, address, key, version and body."""

import re

import anthropic
import openai
import pytest

from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.vendors.anthropic import AnthropicModel
from connectors.models.vendors.batches import BatchModel
from connectors.models.vendors.openai import OpenAIModel
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_batches import BatchBook

KEY = "sk-planted-5e1f0c0ffee"
HEADERS = ("api-key", "anthropic-version", "content-type")
PROMPT = Prompt("Écris une phrase sur l'été.", "a", max_tokens=33, seed=5)


@pytest.fixture(autouse=True)
def planted_key(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, KEY)


@pytest.fixture
def book():
    return BatchBook(looks=0)


@pytest.fixture
def server(book):
    with VendorServer(plan=book) as server:
        book.url = lambda: server.url
        yield server


def sent(server):
    """Return the requests so far, and forget them. Multipart bodies are compared by what the server read of them."""
    requests, server.requests[:] = list(server.requests), []
    return [
        (
            request.headers[":method"],
            request.path,
            request.key,
            *(clean(request.headers.get(name)) for name in HEADERS),
            request.body,
        )
        for request in requests
    ]


def clean(header):
    return header and re.sub(r"boundary=.*", "boundary", header)


def open_openai(server, **options):
    given = {"endpoint": f"{server.url}/v1", "temperature": 0.7, **options}
    return OpenAIModel.from_spec(ModelSpec("writer", "openai", "some-model", given))


@pytest.mark.parametrize("options", [{}, {"system": "You write.", "response_format": {"type": "object"}}])
def test_chat(server, options):
    model = open_openai(server, **options)
    model.complete([PROMPT])
    ours = sent(server)
    openai.OpenAI(base_url=f"{server.url}/v1").chat.completions.create(**model.request(PROMPT))
    assert ours == sent(server)


def test_legacy_completions(server):
    model = open_openai(server, api="completions")
    model.complete([PROMPT])
    ours = sent(server)
    openai.OpenAI(base_url=f"{server.url}/v1").completions.create(**model.request(PROMPT))
    assert ours == sent(server)


@pytest.mark.parametrize("deployment", [None, "our gpt-4"])
@pytest.mark.parametrize("kind", ["chat", "completions"])
def test_azure(server, kind, deployment):
    azure = {"api_version": "2024-10-21"} | ({"deployment": deployment} if deployment else {})
    model = open_openai(server, endpoint=server.url, azure=azure, api=kind)
    model.complete([PROMPT])
    ours = sent(server)
    client = openai.AzureOpenAI(
        azure_endpoint=server.url, azure_deployment=deployment, api_version="2024-10-21", api_key=KEY
    )
    create = client.chat.completions.create if kind == "chat" else client.completions.create
    create(**model.request(PROMPT))
    assert ours == sent(server)


def test_messages(server):
    options = {"endpoint": server.url, "system": "You write.", "stop": ["END"]}
    model = AnthropicModel.from_spec(ModelSpec("writer", "anthropic", "some-model", options))
    model.complete([PROMPT])
    ours = sent(server)
    anthropic.Anthropic(base_url=server.url).messages.create(**model.request(PROMPT))
    assert ours == sent(server)


def test_batches_of_openai(server, book, tmp_path):
    model = open_openai(server)
    assert BatchModel(model, tmp_path, poll=0.01).complete([PROMPT])[0].finish_reason == "stop"
    ours = sent(server)
    (content,) = (value for name, value in book.files.items() if name.startswith("file-"))
    (batch,) = book.batches.values()
    client = openai.OpenAI(base_url=f"{server.url}/v1")
    file = client.files.create(file=("requests.jsonl", content), purpose="batch")
    number = client.batches.create(
        input_file_id="file-0", endpoint="/v1/chat/completions", completion_window="24h", metadata=batch["metadata"]
    ).id
    client.batches.retrieve(number)
    state = client.batches.retrieve(number)
    client.files.content(state.output_file_id)
    theirs = sent(server)
    assert book.files[file.id] == content
    assert [shape(request) for request in ours] == [shape(request) for request in theirs]
    assert ours[1] == theirs[1]


def test_batches_of_anthropic(server, book, tmp_path):
    model = AnthropicModel.from_spec(ModelSpec("writer", "anthropic", "some-model", {"endpoint": server.url}))
    assert BatchModel(model, tmp_path, poll=0.01).complete([PROMPT])[0].finish_reason == "stop"
    ours = sent(server)
    client = anthropic.Anthropic(base_url=server.url)
    number = client.messages.batches.create(requests=ours[0][-1]["requests"]).id
    client.messages.batches.retrieve(number)
    list(client.messages.batches.results(number))
    theirs = sent(server)
    assert ours[0] == theirs[0]
    # The client looks up the address of the results first; ours knows it.
    assert [shape(request) for request in ours] == [shape(request) for request in (*theirs[:2], theirs[-1])]


def shape(request):
    """Return a request without body, its numbers of files and batches unified."""
    return (request[0], re.sub(r"(batch|file|msgbatch)[-_]\d+", r"\1", request[1]), *request[2:-1])
