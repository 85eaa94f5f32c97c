"""Outrider's tests: behaviour sentences over the highest public interface, real parts, no mocks of our own code."""
