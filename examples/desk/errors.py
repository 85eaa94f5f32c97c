"""What a server of the desk tells whoever asked for something it cannot do."""


class DeskError(Exception):
    """A sentence for the asker, and what to do next."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
