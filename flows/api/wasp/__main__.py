"""The command `wasp`. It starts here because no file of a user's project hides this package."""

import sys


def main() -> None:
    """Run the command; Ctrl-C may come before its modules are imported."""
    # Imports take a second; a Ctrl-C in it would end with a traceback.
    try:
        from flows.cli.main import main as run_command
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        raise SystemExit(130) from None
    run_command()


if __name__ == "__main__":
    main()
