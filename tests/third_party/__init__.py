"""Servers other people made, driven through Outrider as its users drive them."""
