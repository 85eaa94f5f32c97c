"""Dates and times: relative phrases, calendars, locales, and the tools that resolve them."""
