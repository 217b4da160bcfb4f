"""Run by the image's Python: compile the sources that standard input names, below directories that the arguments name.

What it writes is the same wherever that is: code names its source as the image does, and holds no time.
"""

import py_compile
import sys
from pathlib import Path


def main() -> None:
    root, compiled = Path(sys.argv[1]), Path(sys.argv[2])
    for path in sys.stdin.read().splitlines():
        source = Path(path)
        target = compiled / source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
        py_compile.compile(
            str(root / source),
            cfile=str(target),
            dfile=f"/{source}",
            doraise=True,
            # Never compared with the source: the image is read-only, and starts sooner.
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )


if __name__ == "__main__":
    main()
