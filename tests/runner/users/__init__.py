"""Tests of users, their memory and profile."""
