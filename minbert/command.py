"""How a command ends: what it says and its exit code where the input is bad or a person stops it. Imports nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps


def exit_code(name: str, stopped: str = "Stopped.") -> Callable:
    """Decorates main(arguments), which returns nothing or a code of its own: 0 done, 2 bad input, 130 interrupted.

    Bad input is a ValueError or OSError; its message follows the command's `name`. `stopped` is said after Ctrl-C.
    """
    def decorate(main: Callable[[Sequence[str] | None], int | None]) -> Callable[..., int]:
        @wraps(main)
        def run(arguments: Sequence[str] | None = None) -> int:
            try:
                return main(arguments) or 0
            except KeyboardInterrupt:
                print(f"\n{stopped}", file=sys.stderr)
                return 130
            except (ValueError, OSError) as error:
                print(f"{name}: {error}", file=sys.stderr)
                return 2
        return run
    return decorate
