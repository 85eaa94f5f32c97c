"""Telemetry: what executions, model calls and tool calls tell to traces and metrics."""
