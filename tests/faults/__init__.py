"""Every fault Outrider survives: what goes wrong, how it ends, within which bounds; the page of them is made from these."""
