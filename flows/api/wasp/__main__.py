"""The command `wasp`. It starts here because no file of a user's project hides this package."""

from flows.cli.main import main

if __name__ == "__main__":
    main()
