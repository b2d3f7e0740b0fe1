"""`python -m dgpnet` is the command `dgpnet`."""

from dgpnet.cli import main

if __name__ == "__main__":
    main()
