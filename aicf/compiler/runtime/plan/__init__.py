"""Where in one arena each buffer lies: what is asked, how it is packed, and that it is right."""
