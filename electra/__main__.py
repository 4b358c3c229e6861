"""`python -m electra VERB`: the command `electra`, also where the package is not installed."""

from electra.tools.commands import main

if __name__ == "__main__":
    main()
