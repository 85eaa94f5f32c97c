"""Whether traces are sent: what the configuration and the environment say, and what happens without the packages."""

import logging
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from server.blueprint import Blueprint
from server.telemetry import NoTelemetry, observers_of, traces_address
from tests.support.service import settings_of
from tests.support.shell import CONFIG, make_shell

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://there:4318/"}
TRACES = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://exactly/here"}
AGENTS = "agents: {A: {description: a}}\n"


def blueprint(folder: Path, section: str, environ: Mapping[str, str]) -> Blueprint:
    """A blueprint with this section of the configuration."""
    return Blueprint(settings_of(folder, AGENTS + section), folder / "outrider.db", environ=environ)


@pytest.mark.parametrize(
    ("section", "environ", "address"),
    [
        ("", {}, None),
        ("", ENDPOINT, "http://there:4318/v1/traces"),
        ("", {**ENDPOINT, **TRACES}, "http://exactly/here"),
        ("", {**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, None),
        ("", {**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, None),
        ("telemetry: {enabled: false}", ENDPOINT, None),
        ("telemetry: {enabled: true}", {}, "http://localhost:4318/v1/traces"),
        ("telemetry: {enabled: true}", ENDPOINT, "http://there:4318/v1/traces"),
        ("telemetry: {endpoint: 'https://mine/otel'}", {**ENDPOINT, **TRACES}, "https://mine/otel/v1/traces"),
        ("telemetry: {endpoint: 'https://mine/otel'}", {"OTEL_SDK_DISABLED": "TRUE"}, None),
    ],
)
def test_the_configuration_goes_before_the_environment_and_off_before_both(
    tmp_path: Path, section: str, environ: Mapping[str, str], address: str | None
) -> None:
    assert traces_address(blueprint(tmp_path, section, environ)) == address


def test_what_the_configuration_asks_for_is_refused_without_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(NoTelemetry, match="OpenTelemetry is not installed") as refused:
        observers_of(blueprint(tmp_path, "telemetry: {endpoint: 'http://there:4318'}", {}))
    assert refused.value.hint == "install outrider[otel]"


def test_a_variable_of_the_whole_machine_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with caplog.at_level(logging.WARNING, "outrider.telemetry"):
        assert observers_of(blueprint(tmp_path, "", ENDPOINT)) is None
    assert "install outrider[otel]" in caplog.text


def test_settings_that_opentelemetry_refuses_stop_only_what_the_configuration_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1")
    with caplog.at_level(logging.WARNING, "outrider.telemetry"):
        assert observers_of(blueprint(tmp_path, "", ENDPOINT)) is None
    assert "max_queue_size; hint: correct or remove the variables `OTEL_*`" in caplog.text
    with pytest.raises(NoTelemetry, match="OpenTelemetry refuses its settings"):
        observers_of(blueprint(tmp_path, "telemetry: {endpoint: 'http://there:4318'}", {}))


def test_a_command_is_refused_in_words(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, f"{CONFIG}\ntelemetry: {{endpoint: here}}\n")
    done = shell.type("run", "Quick", "go")
    assert done.returncode == 2
    assert "config.yaml:" in done.stderr
    assert "telemetry.endpoint: an `http://` or `https://` address is expected" in done.stderr
