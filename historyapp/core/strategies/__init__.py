"""How old steps become summaries. One file each; the registry names them."""
