"""The exercises on latent attention."""
