"""Cancelling a large tree: how soon every row, task, socket and process of it is over."""
