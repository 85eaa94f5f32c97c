"""The requirements of Outrider, one sentence each, and what ties them to the tests."""
