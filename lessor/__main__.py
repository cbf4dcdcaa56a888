"""`python -m lessor` is the command line."""

from lessor.cli.main import main

if __name__ == "__main__":
    main()
