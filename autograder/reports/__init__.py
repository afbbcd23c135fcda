"""Reports: each a pure projection of `Report` (terminal, HTML pages, tables). Import the one that you need."""
