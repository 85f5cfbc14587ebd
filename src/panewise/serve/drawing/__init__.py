"""Draws the weave: `weave_graph` decides what is drawn and writes SVG or Graphviz text, `weave_layout` places boxes."""
