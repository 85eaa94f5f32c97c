"""The page: ES modules, styles and documents, and how one script is made of the modules. The shells are its users."""
