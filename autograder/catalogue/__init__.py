"""Messages in the reader's language: reports and commands write English, and what is shown may be translated."""

from autograder.catalogue.speech import (
    ENGLISH,
    VARIABLE,
    Catalogue,
    CatalogueError,
    Say,
    languages,
    load,
    of_environment,
)
from autograder.catalogue.template import word

__all__ = ["ENGLISH", "VARIABLE", "Catalogue", "CatalogueError", "Say", "languages", "load", "of_environment", "word"]
