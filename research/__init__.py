"""How the models that ship were made, and what was measured of them: run from a clone, not part of the package.

python -m research.default_model --help   # variants at equal budget, and the two that ship
python -m research.examples --help        # what more examples cost and bring
python -m research.presence --help        # whether the thing is there at all
python -m research.fitting --help         # what fitting gains and costs
python -m research.suggestion --help      # suggested examples against random ones
"""
