"""The dashboard face: the files of the pages, and the data beside each page."""
