"""Tests of the benchmark itself: that its figures count only when the work was done. Never a timing."""
