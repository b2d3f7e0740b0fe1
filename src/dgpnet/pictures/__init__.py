"""Overlays, heat maps, grids and plots: one place, used by reports, training and tables."""

from dgpnet.pictures.photographs import Picture, caption, grid, heat_map, mosaic, overlay, save
from dgpnet.pictures.plots import Series, bar_plot, line_plot, reliability_plot

__all__ = [
    "Picture",
    "Series",
    "bar_plot",
    "caption",
    "grid",
    "heat_map",
    "line_plot",
    "mosaic",
    "overlay",
    "reliability_plot",
    "save",
]
