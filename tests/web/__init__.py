"""The page in a real Chromium, and the scripts it is made of."""
