"""One file a section of the page: its controls, its endpoints and what answers them. A file with a SECTION is found."""
