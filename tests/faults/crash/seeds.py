"""The seed of this run: given, or drawn anew."""

import os
import secrets

SEED = int(os.environ.get("OUTRIDER_SEED", "0")) or secrets.randbelow(10**9)
