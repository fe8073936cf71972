"""Models of both vendors that record their answers, as clients of the local vendor server."""

from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from connectors.models.vendors.anthropic import AnthropicModel
from connectors.models.vendors.openai import OpenAIModel

IN_FLIGHT = 12
VENDORS = {"openai": (OpenAIModel, "/v1"), "anthropic": (AnthropicModel, "")}


def writings(count, same=1):
    """Return prompts with their own seeds, of which each `same` in turn have one text."""
    return [Prompt(f"Write number {i // same}.", "a", seed=i) for i in range(count)]


def recording(vendor, url, folder, **more):
    connector, suffix = VENDORS[vendor]
    options = {"endpoint": url + suffix, "key": "none", "concurrency": IN_FLIGHT, **more}
    return Recording(
        connector.from_spec(ModelSpec("writer", vendor, "m", options)), CompletionStore(folder)
    )
