"""Makes the repository's `examples` importable, as `python -m examples…` from the root does."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
