"""Typed parameters of the audit: the audited run, the number of trials, and the attack on a whole run."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from connectors.interfaces.addresses import ConfigName
from flows.catalog import find_method, flow_names
from flows.config.extends import flow_of
from flows.config.files import Changes, load_config
from flows.config.form import Strict
from flows.engine.server import find_permitted_config, require_addresses


class PipelineAttack(Strict):
    """Attack on the outputs of one complete WASP run with synthetic canary records among the shipped rows."""

    canaries: int = Field(
        600,
        ge=20,
        le=5000,
        description="Canary records, each inserted with probability 1/2. More canaries give stronger bounds.",
    )

    @property
    def guesses(self) -> int:
        """Number of most extreme canaries that each attack guesses; fixed in advance."""
        return self.canaries * 5 // 12


class AuditConfig(Strict):
    """Attacks on each release that a run would draw. Opens no private row and spends no budget."""

    is_whole = True
    flow_name: ClassVar[str] = "audit"

    config: Annotated[ConfigName, Field(min_length=1)] = Field(
        description="Configuration of the audited run: a name, such as demo, or a file."
    )
    changes: Changes = Field(
        None,
        description="Changes of single values of that configuration, such as privacy.epsilon=2.",
    )
    trials: int = Field(
        1000,
        ge=50,
        le=20_000,
        description="Number of runs with and of runs without the target record. More trials give stronger bounds.",
    )
    pipeline: PipelineAttack | None = Field(
        None, description="Also attack a complete run of WASP (takes minutes); empty: no."
    )

    def audited(self) -> Any:
        """Return the configuration of the audited run; its file names the flow, or the file's name begins with it."""
        require_addresses(self)
        path = find_permitted_config("config", self.config)
        method = find_method(flow_of(path, flow_names()))
        config = load_config(method.config, path, self.changes or [])
        # Changes may name further addresses.
        require_addresses(config)
        return config
