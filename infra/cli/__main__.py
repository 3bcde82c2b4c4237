"""`python -m signoff.infra.cli`: the command line, where its script is not on the path."""

from signoff.infra.cli.main import main

if __name__ == "__main__":
    main()
