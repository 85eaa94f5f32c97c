"""Orchestrators as their own documentation writes them: files for the tests that load them.

Owns: the texts, word for word where they are YAML. Must not know: what a test expects of them.
"""

from pathlib import Path

ROOT = """\
#!/usr/bin/env aigne

model: google/gemini-2.5-pro
agents:
  - agents/orchestrator.yaml
"""

TYPE = 'type: "@aigne/agent-library/orchestrator"\n'

BASIC = """\
type: "@aigne/agent-library/orchestrator"
name: orchestrator

# Optional: Define custom input fields
# Any field you want to use in objective templates must be declared here
input_schema:
  type: object
  properties:
    message:
      type: string
      description: User's custom instruction
  required: []

# Define the overall objective
objective:
  url: objective.md

# Optional: customize state management
state_management:
  max_iterations: 20        # Maximum planning-execution cycles
  max_tokens: 100000       # Token limit for execution state
  keep_recent: 20          # Keep only N most recent tasks

# Optional: configure Agent File System
afs:
  modules:
    - module: local-fs
      options:
        name: workspace
        localPath: .
        description: Workspace directory for the orchestrator agent
"""

PLANNER = """\
type: "@aigne/agent-library/orchestrator"
objective:
  url: objective.md

planner:
  type: ai
  instructions:
    url: custom-planner.md
"""

WORKER = """\
worker:
  type: ai
  instructions:
    url: custom-worker.md
"""

COMPLETER = """\
completer:
  type: ai
  instructions:
    url: custom-completer.md
  output_schema:
    type: object
    properties:
      summary:
        type: string
        description: Executive summary
      details:
        type: object
        description: Detailed findings
      recommendations:
        type: array
        items:
          type: string
        description: Action recommendations
    required: [summary]
"""

LONG_STATE = """\
state_management:
  max_iterations: 50       # Allow many iterations
  max_tokens: 80000       # But limit context size
  keep_recent: 30         # Keep up to 30 recent tasks (if they fit in token limit)
"""

SHARED_FOLDERS = """\
afs:
  modules:
    - module: local-fs
      options:
        name: workspace
        localPath: .
    - module: local-fs
      options:
        name: output
        localPath: ./output
"""

SHORT_STATE = """\
state_management:
  max_iterations: 30  # Allow up to 30 planning-execution cycles
"""

DOCUMENTATION = """\
type: "@aigne/agent-library/orchestrator"
objective: |
  Explore the codebase and generate comprehensive documentation including:
  - Project overview and architecture
  - API reference
  - Setup instructions
  - Usage examples

state_management:
  max_iterations: 15

afs:
  modules:
    - module: local-fs
      options:
        name: source
        localPath: ./src
    - module: local-fs
      options:
        name: docs
        localPath: ./docs
"""

RESEARCHER = """\
type: "@aigne/agent-library/orchestrator"
name: researcher

# IMPORTANT: Declare custom input fields
input_schema:
  type: object
  properties:
    topic:
      type: string
      description: Research topic
    depth:
      type: string
      enum: [basic, detailed, comprehensive]
      description: Research depth
  required: [topic]

objective:
  content: |
    Research {{ topic }} and generate a comprehensive report including:
    - Background and context
    - Current state of the art
    - Key findings
    - Future directions

    {% if depth %}
    Research depth: {{ depth }}
    {% endif %}

planner:
  type: ai
  instructions: |
    Plan research tasks systematically:
    1. Background research
    2. Detailed investigation
    3. Cross-reference and validation
    4. Report synthesis

completer:
  type: ai
  output_schema:
    type: object
    properties:
      title:
        type: string
      executive_summary:
        type: string
      sections:
        type: array
        items:
          type: object
          properties:
            heading:
              type: string
            content:
              type: string
      references:
        type: array
        items:
          type: string

state_management:
  max_iterations: 20
  max_tokens: 100000
"""

COMPRESSED_STATE = """\
state_management:
  max_iterations: 50
  max_tokens: 80000      # Prevent context overflow
  keep_recent: 25        # Keep recent tasks for continuity
"""

CACHED_FOLDERS = """\
afs:
  modules:
    - module: local-fs
      options:
        name: workspace
        localPath: .
    - module: local-fs
      options:
        name: cache
        localPath: ./.cache
        description: Cache for intermediate results
"""

MODELS = """\
type: "@aigne/agent-library/orchestrator"
objective:
  url: objective.md

# Planner uses powerful model for strategic thinking
planner:
  type: ai
  model: anthropic/claude-3-5-sonnet-20241022
  instructions:
    url: planner.md

# Worker uses fast model for efficient execution
worker:
  type: ai
  model: google/gemini-2.0-flash

# Completer uses powerful model for quality synthesis
completer:
  type: ai
  model: anthropic/claude-3-5-sonnet-20241022
"""

SCHEMAS = """\
input_schema:
  type: object
  properties:
    target:
      type: string
      description: Target directory to analyze
    depth:
      type: number
      description: Analysis depth (1-3)
    includeTests:
      type: boolean
      description: Whether to include test analysis
      default: false
  required: [target]

output_schema:
  type: object
  properties:
    summary:
      type: string
    findings:
      type: array
    recommendations:
      type: array
"""

WHOLE = {
    "basic": BASIC,
    "planner": PLANNER,
    "documentation": DOCUMENTATION,
    "researcher": RESEARCHER,
    "models": MODELS,
}
PARTS = {
    "worker": WORKER,
    "completer": COMPLETER,
    "long state": LONG_STATE,
    "shared folders": SHARED_FOLDERS,
    "short state": SHORT_STATE,
    "compressed state": COMPRESSED_STATE,
    "cached folders": CACHED_FOLDERS,
    "schemas": SCHEMAS,
}
"""Parts of such a file, which stand in one with a type."""

TEXTS = {
    "objective.md": "Report on the project.\n\n{% if message %}\n## Wishes\n{{ message }}\n{% endif %}\n",
    "planner.md": "Plan.",
    "custom-planner.md": "Plan {{ objective }} with {{ skills | yaml.stringify }}: {{ executionState | yaml.stringify }}",
    "custom-worker.md": "For {{ objective }} do {{ task }}: {{ executionState | yaml.stringify }}",
    "custom-completer.md": "Answer {{ objective }} from {{ executionState | yaml.stringify }}",
}


def orchestrator(folder: Path, text: str) -> Path:
    """Write a root file, an agent and the texts beside it; return the root file."""
    agents = folder / "agents"
    agents.mkdir(exist_ok=True)
    agents.joinpath("orchestrator.yaml").write_text(text if TYPE in text else f"{TYPE}objective: Do it\n{text}", "utf-8")
    for name, content in TEXTS.items():
        agents.joinpath(name).write_text(content, encoding="utf-8")
    root = folder / "aigne.yaml"
    root.write_text(ROOT, encoding="utf-8")
    return root
