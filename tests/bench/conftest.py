"""Settings of benchmarks are made in the tests' own process: tested is that they agree, not how fast they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench import measure


class SettingHere:
    """As `measure._SettingProcess`, without a process."""

    def __init__(self, name: str, arguments: dict[str, Any], environment: dict[str, str]) -> None:
        module, _, function = name.partition(":")
        made = getattr(__import__(module, fromlist=[function]), function)
        self._setting: measure.Setting = made(**json.loads(json.dumps(arguments)))
        self.told = self._setting.told

    def ask(self, line: str) -> dict[str, Any]:
        return measure.asked(self._setting, line)

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _settings_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("own_processes") is None:
        monkeypatch.setattr(measure, "_SettingProcess", SettingHere)
